"""A stand-in as a process of its own, to be killed and stopped: `python upstream_process.py policy|retriever PORT [VERSION]`."""

import sys

import uvicorn
from gateway_fakes import BOTH, DONE, PASSAGES, fake_policy, fake_retriever


def line(context):
    return DONE if "Doc 1(Title: " in context else BOTH


class Endless:
    def __getitem__(self, _):
        return line


if __name__ == "__main__":
    kind, port, *version = sys.argv[1:]
    app = fake_policy(Endless(), version=version[0] if version else "7") if kind == "policy" else fake_retriever(PASSAGES)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_config=None, access_log=False)
