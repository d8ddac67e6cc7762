"""The supervising process of `parallelsearch up`: runs the plan it is given until SIGTERM. Not meant to be called by hand."""

from __future__ import annotations

import sys
from pathlib import Path

from parallelsearch.supervisor.launch import supervise_detached
from parallelsearch.supervisor.places import StateFolder

if __name__ == "__main__":
    sys.exit(supervise_detached(StateFolder(Path(sys.argv[1]))))
