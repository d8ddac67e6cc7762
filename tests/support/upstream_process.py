"""A stand-in as a process of its own, to be killed and stopped.

python upstream_process.py policy PORT [VERSION]
python upstream_process.py retriever PORT [failing]    where the second sub-query cannot be searched
python upstream_process.py rubbish PORT BYTES          answers every connection with these
"""

import socketserver
import sys

import uvicorn
from gateway_fakes import BOTH, DONE, PASSAGES, fake_policy, fake_retriever


def line(context):
    return DONE if "Doc 1(Title: " in context else BOTH


class Endless:
    def __getitem__(self, _):
        return line


class Rubbish(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(65_536)
        self.request.sendall(sys.argv[3].encode().decode("unicode_escape").encode("latin-1"))


def application(kind, option=""):
    if kind == "policy":
        return fake_policy(Endless(), version=option or "7")
    return fake_retriever(PASSAGES | ({list(PASSAGES)[1]: 500} if option else {}))


if __name__ == "__main__":
    kind, port, *options = sys.argv[1:]
    if kind == "rubbish":
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        socketserver.ThreadingTCPServer(("127.0.0.1", int(port)), Rubbish).serve_forever()
    uvicorn.run(application(kind, *options), host="127.0.0.1", port=int(port), log_config=None, access_log=False)
