"""Upstreams for the web page: a policy that writes what the question calls for at the pace it is told, and a slow retriever."""

import asyncio
import re

from gateway_fakes import fake_policy, fake_retriever

AGES = "Who is older, Claude Monet or Camille Pissarro?"
HOSTILE = "What does the hostile passage say?"
MANY = "Ask very many things at once."
FALLING = "Which half of this question can be searched?"
REFUSED = "A question that nothing can be found for."
BROKEN = "A question that the policy breaks on."
MONET, PISSARRO = "When was Claude Monet born?", "When was Camille Pissarro born?"
SCRIPT_TAG = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
HOSTILE_QUERY = f"{SCRIPT_TAG} [click](javascript:alert(1))"
MANY_QUERIES = [f"What is the number of thing {number}?" for number in range(10)]


def says(thought, block):
    return f"<think> {thought} </think>\n\n{block}"


def search(*queries):
    return f"<search> {' ## '.join(queries)} </search>"


def answer(text):
    return f"<answer> {text} </answer>"


BOTH_NEEDED = "I need both dates of birth. Neither depends on the other, so I can ask for them at the same time."
SCRIPTS = {
    AGES: (
        [
            says(BOTH_NEEDED, search(MONET, PISSARRO)),
            says("Monet was born in 1840 and Pissarro in 1830, so Pissarro is older.", answer("Camille Pissarro")),
        ],
        [
            says("First I look for one of the two.", search(MONET)),
            says("1840. Now the other one.", search(PISSARRO)),
            says("1830 is before 1840.", answer("Camille Pissarro")),
        ],
    ),
    HOSTILE: ([says(SCRIPT_TAG, search(HOSTILE_QUERY)), says("So it says.", answer(SCRIPT_TAG))], []),
    MANY: (
        [*(says("More.", search(*(f"{q} ({turn})" for q in MANY_QUERIES))) for turn in range(4)), says("So.", answer("Forty"))],
        [],
    ),
    FALLING: (
        [says("Two halves, and too many more.", search(MONET, "fails", "over one", "over two")), says("One half.", answer("1840"))],
        [],
    ),
    REFUSED: ([says("Hm.", search("fails"))], []),
    BROKEN: ([500], []),
}
PASSAGES = {
    MONET: [
        (
            "monet-1",
            "Claude Monet",
            "Claude Monet (14 November 1840 – 5 December 1926) was a French painter and a founder of Impressionism. Born in Paris, "
            "he grew up in Le Havre on the Normandy coast, where he learned to paint in the open air.",
        ),
        (
            "monet-2",
            "Claude Monet",
            "In 1883 Claude Monet settled at Giverny, a village in Normandy, where he laid out a garden with a pond.",
        ),
        ("impression-1", "Impression, Sunrise", "Impression, Sunrise is a painting of the port of Le Havre, shown in 1874."),
    ],
    PISSARRO: [
        (
            "pissarro-1",
            "Camille Pissarro",
            "Camille Pissarro (10 July 1830 – 13 November 1903) was a Danish-French painter, born on the island of St. Thomas. "
            "He took part in all eight of the Impressionists' exhibitions.",
        ),
        ("cezanne-1", "Paul Cézanne", "Paul Cézanne worked beside Camille Pissarro at Pontoise in the 1870s."),
        (
            "boulevard-1",
            "Boulevard Montmartre",
            "Boulevard Montmartre is a series that Pissarro painted from a hotel window in 1897.",
        ),
    ],
    HOSTILE_QUERY: [
        (
            "hostile-1",
            f"{SCRIPT_TAG} \u202egnp.exe",
            f"{SCRIPT_TAG} **bold** [a link](javascript:alert(1)) \u202eread backwards\u202c.",
        ),
        ("hostile-2", "שלום עולם", "מונה נולד בשנת 1840 בפריז."),
    ],
    "fails": 500,
}


class ByQuestion:
    """A script that reads from the context where the rollout stands, so that any number of answers run at once."""

    def __getitem__(self, _):
        return self.line

    def line(self, context):
        question = next((each for each in SCRIPTS if each in context), AGES)
        parallel, sequential = SCRIPTS[question]
        lines = parallel if "decompose" in context or not sequential else sequential
        return lines[min(len(re.findall(r"\n\n<information>", context)), len(lines) - 1)]


def web_policy():
    return fake_policy(ByQuestion())


def web_retriever():
    return fake_retriever(PASSAGES)


class Paced:
    """Waits before each answer of `path`, and between its chunks."""

    def __init__(self, app, path, *, before_s, between_s=0.0):
        self.app, self.path, self.before_s, self.between_s = app, path, before_s, between_s

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] != self.path:
            await self.app(scope, receive, send)
            return

        async def slowly(message):
            await asyncio.sleep(self.before_s if message["type"] == "http.response.start" else self.between_s)
            await send(message)

        await self.app(scope, receive, slowly)
