import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_env_example_holds_every_setting_with_its_default():
    written = subprocess.run([sys.executable, ROOT / "deploy" / "env_example.py"], capture_output=True, text=True, check=True)
    assert (ROOT / ".env.example").read_text() == written.stdout, "run: .venv/bin/python deploy/env_example.py > .env.example"
