import re
import subprocess
import sys
from pathlib import Path

from parallelsearch.supervisor.plan import given_settings, shared_environment
from parallelsearch.supervisor.settings import from_environment

ROOT = Path(__file__).resolve().parents[2]


def test_env_example_holds_every_setting_with_its_default():
    written = subprocess.run([sys.executable, ROOT / "deploy" / "env_example.py"], capture_output=True, text=True, check=True)
    assert (ROOT / ".env.example").read_text() == written.stdout, "run: .venv/bin/python deploy/env_example.py > .env.example"


def test_up_notices_a_change_of_every_setting_of_the_services(tmp_path):
    services = (ROOT / ".env.example").read_text().partition("# --- gateway: ")[2]
    names = re.findall(r"^# ([A-Z][A-Z0-9_]+)=", services, re.M)
    assert len(names) > 100
    shared = shared_environment(from_environment({}, tmp_path))
    assert set(names) - given_settings(dict.fromkeys(names, "set"), shared).keys() - shared.keys() == set()
