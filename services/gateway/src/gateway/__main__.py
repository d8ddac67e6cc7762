"""Entry point: `python -m gateway`."""

from __future__ import annotations

from gateway.app import create_app
from gateway.settings import GatewaySettings
from parallelsearch.errors import ConfigurationError
from servicekit.server import serve
from servicekit.settings import load


def main() -> None:
    settings = load(GatewaySettings)
    try:
        app = create_app(settings)
    except ConfigurationError as error:
        raise SystemExit(f"configuration: {error.detail}") from None
    serve(app, settings)


if __name__ == "__main__":
    main()
