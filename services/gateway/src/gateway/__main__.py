"""Entry point: `python -m gateway`."""

from __future__ import annotations

from gateway.app import create_app
from gateway.settings import GatewaySettings
from servicekit.server import serve
from servicekit.settings import load


def main() -> None:
    settings = load(GatewaySettings)
    serve(create_app(settings), settings)


if __name__ == "__main__":
    main()
