"""A driver like OpenRLHF's: one process of Ray hands another a copy of the tokenizer for each question.

usage: python tokenizer_senders.py COPIES, with the environment of a run; says how many tokenizers came of them, and whether they
encode as the first did
"""

import sys

import ray
from tokenizers import Tokenizer, models

WORDS = {"[UNK]": 0, "who": 1, "is": 2, "older": 3}


@ray.remote
class Trainer:
    def make_rollouts(self, engine, copies):
        tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
        return ray.get([engine.generate_responses.remote(hf_tokenizer={"_tokenizer": tokenizer}) for _ in range(copies)])


@ray.remote
class Engine:
    def __init__(self):
        self.kept = []

    async def generate_responses(self, hf_tokenizer):
        self.kept.append(hf_tokenizer["_tokenizer"])
        return id(self.kept[-1]), self.kept[-1].encode("older").ids


def main():
    ray.init(runtime_env={"env_vars": {"TOKENIZERS_PARALLELISM": "true"}})
    got = ray.get(Trainer.remote().make_rollouts.remote(Engine.remote(), int(sys.argv[1])))
    tokenizers, ids = {identity for identity, _ in got}, sorted({tuple(ids) for _, ids in got})
    sys.stdout.write(f"{len(got)} copies, {len(tokenizers)} tokenizers, ids {ids}\n")


if __name__ == "__main__":
    main()
