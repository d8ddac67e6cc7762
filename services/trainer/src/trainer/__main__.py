"""Entry point: `python -m trainer` serves, `python -m trainer prepare-data …` makes training data."""

from __future__ import annotations

import sys


def main() -> None:
    # Imports wait for the choice: making data needs no server, and serving none of the readers.
    if sys.argv[1:2] == ["prepare-data"]:
        from trainer.prepare import app

        app(sys.argv[2:], prog_name="python -m trainer prepare-data")
        return
    from parallelsearch.errors import ConfigurationError
    from servicekit.preflight import require_port, require_writable
    from servicekit.server import serve
    from servicekit.settings import load
    from trainer.alone import hold
    from trainer.app import create_app, default_launchers
    from trainer.settings import TrainerSettings
    from trainer.store import RECORD, Store

    settings = load(TrainerSettings)
    require_port(settings)
    require_writable(settings.runs_dir, "TRAINER_RUNS_DIR")
    with hold(settings.runs_dir):
        try:
            Store(settings.runs_dir / RECORD).close()
            launchers = default_launchers(settings)
        except ConfigurationError as error:
            raise SystemExit(f"configuration: {error.detail}") from None
        serve(create_app(settings, launchers), settings)


if __name__ == "__main__":
    main()
