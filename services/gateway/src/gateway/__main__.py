"""Entry point: `python -m gateway`."""

from __future__ import annotations

import os

from gateway.app import create_app
from gateway.settings import GatewaySettings
from parallelsearch.errors import ConfigurationError
from servicekit.preflight import require_file, require_port
from servicekit.server import serve
from servicekit.settings import load


def main() -> None:
    # A text at a time is tokenised: handing it to a pool of threads takes longer than the work.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    settings = load(GatewaySettings)
    require_port(settings)
    for path, variable in ((settings.store_path, "GATEWAY_STORE_PATH"), (settings.trace_file, "TRACE_FILE")):
        if path is not None:
            require_file(path, variable)
    try:
        app = create_app(settings)
    except ConfigurationError as error:
        raise SystemExit(f"configuration: {error.detail}") from None
    serve(app, settings)


if __name__ == "__main__":
    main()
