"""Clients that know nothing of this project: LangChain, and what Open WebUI sends."""

import json

import httpx2
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

TASK = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: Who is older, Claude Monet or Camille Pissarro?
ASSISTANT: Camille Pissarro
</chat_history>"""


@pytest.fixture
def start(start_live):
    def started(script=(BOTH, DONE)):
        return start_live(fake_policy(script), fake_retriever(PASSAGES))

    return started


@pytest.fixture
def langchain(start):
    return ChatOpenAI(model="parallelsearch", base_url=f"{start().url}/v1", api_key="none", max_retries=0, timeout=30)


def test_langchain_invokes_with_real_usage(langchain):
    message = langchain.invoke([SystemMessage("Be brief."), HumanMessage(QUESTION)])
    assert message.content == "Camille Pissarro"
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.usage_metadata["output_tokens"] == len(BOTH) + len(DONE)


def test_langchain_streams(langchain):
    chunks = list(langchain.stream(QUESTION))
    assert "".join(chunk.content for chunk in chunks) == "Camille Pissarro"
    assert chunks[-1].chunk_position == "last"
    assert len(chunks) > 3


def test_langchain_chains_with_a_history(langchain):
    prompt = ChatPromptTemplate.from_messages([("human", "Hello"), AIMessage("Hello!"), ("human", "{question}")])
    assert (prompt | langchain | StrOutputParser()).invoke({"question": QUESTION}) == "Camille Pissarro"


def open_webui(gateway, content, *, stream, **more):
    """A request as Open WebUI makes it, with the fields it adds."""
    body = {
        "stream": stream,
        "model": "parallelsearch",
        "messages": [{"role": "user", "content": content}],
        "session_id": "s",
        "chat_id": "c",
        "id": "i",
        "features": {"image_generation": False, "code_interpreter": False, "web_search": False},
        "variables": {"{{USER_NAME}}": "someone"},
        "background_tasks": {"title_generation": True, "tags_generation": True},
        "params": {},
        "tool_servers": [],
        "user": {"name": "someone", "id": "1"},
    } | more
    return httpx2.post(f"{gateway.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer none"}, timeout=30)


def test_open_webui_lists_models(start):
    listed = httpx2.get(f"{start().url}/v1/models", headers={"authorization": "Bearer none"}).json()
    assert (listed["object"], [model["id"] for model in listed["data"]]) == (
        "list",
        ["parallelsearch", "parallelsearch-sequential"],
    )
    assert {model["object"] for model in listed["data"]} == {"model"}


def test_open_webui_streams_a_chat(start):
    response = open_webui(start(), QUESTION, stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    deltas = [choice["delta"] for line in lines[:-1] for choice in json.loads(line)["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Camille Pissarro"
    assert any(delta.get("reasoning_content") for delta in deltas)


def test_open_webui_sends_text_and_images_as_parts(start):
    parts = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    assert open_webui(start(), parts, stream=False).json()["choices"][0]["message"]["content"] == "Camille Pissarro"


def test_open_webui_s_title_task_is_a_completion_like_any_other(start):
    gateway = start(["<think> a title </think>\n\n<answer> 🎨 Monet and Pissarro </answer>"])
    more = {"max_completion_tokens": 1000, "metadata": {"task": "title_generation", "chat_id": "c"}}
    response = open_webui(gateway, TASK, stream=False, **more)
    assert response.json()["choices"][0]["message"]["content"] == "🎨 Monet and Pissarro"


def test_a_title_task_over_a_very_long_chat_is_refused_in_openai_s_shape(start):
    response = open_webui(start(), TASK + "word " * 3_000, stream=False)
    assert response.status_code == 422
    assert response.json()["error"]["param"] == "messages"
