"""`python -m retriever` serves; `python -m retriever index …` builds and shows indexes.

Engines are imported late: `index --help` and a refusal must not wait seconds for torch.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    # None of the hundreds of thousands of objects that an engine imports is garbage; looking for it takes a fifth of the start.
    gc.set_threshold(50_000)
    # Read by the OpenMP runtimes when they load: idle workers sleep instead of spinning on the cores of the event loop.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if sys.argv[1:2] == ["index"]:
        from retriever.commands import app

        app(sys.argv[2:], prog_name="python -m retriever index")
    else:
        serve_index()


def serve_index() -> None:
    from parallelsearch.errors import ParallelSearchError
    from retriever.settings import RetrieverSettings
    from servicekit.preflight import require_port
    from servicekit.settings import load

    # How long a thread that holds the interpreter may keep it while others wait. The encoder's threads take it between any two
    # operations; at the usual 5 ms each of them would wait for the event loop longer than it computes.
    sys.setswitchinterval(0.0005)
    settings = load(RetrieverSettings)
    require_port(settings)
    from retriever.app import create_app, open_retriever
    from servicekit.server import serve

    try:
        retriever = open_retriever(settings)
    except ParallelSearchError as error:
        raise SystemExit(f"retriever: {error.detail}") from None
    serve(create_app(settings, retriever), settings)


if __name__ == "__main__":
    main()
