"""`python -m trainer` on a machine that is said to have a GPU: `python trainer_process.py`."""

import os

from parallelsearch.schemas.training import LauncherName
from servicekit.server import serve
from servicekit.settings import load
from trainer.app import create_app
from trainer.launchers.local import LocalLauncher
from trainer.settings import TrainerSettings

if __name__ == "__main__":
    settings = load(TrainerSettings)
    serve(create_app(settings, {LauncherName.LOCAL: LocalLauncher(gpus=lambda: [f"gpu-of-{os.getpid()}"])}), settings)
