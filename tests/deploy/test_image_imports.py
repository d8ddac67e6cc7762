"""Each service starts with the packages that its image installs, and no others of this machine."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}: the image has no such package")

ABSENT = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Absent())
for module in sys.argv[2].split(","):
    importlib.import_module(module)
"""
ENTRIES = {
    "gateway": "gateway.__main__,gateway.app",
    "policy": "policy.__main__,policy.serving,policy.preparation,policy.engines",
    "retriever": "retriever.__main__,retriever.app,retriever.commands",
    "trainer": "trainer.__main__,trainer.app,trainer.prepare,trainer.launchers.kubernetes",
}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_in_image(service):
    """Names of the packages in the lists that the service's Dockerfile copies, and the project's own."""
    lists = set(re.findall(r"requirements/[\w-]+\.txt", (ROOT / "services" / service / "Dockerfile").read_text()))
    assert lists
    pins = "\n".join((ROOT / name).read_text() for name in lists)
    return {canonical(name) for name in re.findall(r"^([A-Za-z0-9][\w.-]*)==", pins, re.MULTILINE)}


def absent_in_image(service):
    """Modules of this environment that belong to packages which the image lacks."""
    there = installed_in_image(service)
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if not any(canonical(owner) in there or canonical(owner).startswith("parallelsearch") for owner in owners)
    )


@pytest.mark.parametrize("service", ENTRIES)
def test_a_service_imports_nothing_that_its_image_lacks(service):
    absent = absent_in_image(service)
    assert "pytest" in absent
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, ",".join(absent), ENTRIES[service]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1500:]
