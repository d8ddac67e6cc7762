"""Entry point: `python -m trainer`."""

from __future__ import annotations

from servicekit.server import serve
from servicekit.settings import load
from trainer.app import create_app
from trainer.settings import TrainerSettings


def main() -> None:
    settings = load(TrainerSettings)
    serve(create_app(settings), settings)


if __name__ == "__main__":
    main()
