"""The reading process: one JSON line in (path, format, name), one out, until its input ends.

Readers are fed files of strangers, so they run here: with bounded memory and time, and without the engines.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import orjson

from retriever.documents.document import Unreadable
from retriever.documents.formats import Format
from retriever.documents.readers.reading import read_document

MEMORY_BYTES = 2 << 30


def main() -> None:
    timeout_s = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's to answer, which ends our input
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    for line in sys.stdin.buffer:
        asked = orjson.loads(line)
        signal.alarm(timeout_s)  # its default action ends this process, whatever code hangs
        try:
            found = orjson.dumps(asdict(read_document(Path(asked["path"]), Format(asked["format"]), asked["name"])))
        except Unreadable as error:
            found = orjson.dumps({"unreadable": str(error)})
        signal.alarm(0)
        answers.write(found + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
