"""The built files in the package are those of the source."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.web

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "services/gateway/web"
BUILT = ROOT / "services/gateway/src/gateway/web"


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(shutil.which("npm") is None or not (SOURCE / "node_modules").is_dir(), reason="needs node: make web")
def test_the_built_files_are_what_the_source_builds(tmp_path):
    subprocess.run(["npx", "vite", "build", "--outDir", tmp_path, "--logLevel", "error"], cwd=SOURCE, check=True)
    assert contents(BUILT) == contents(tmp_path)


def test_the_lock_holds_versions_and_hashes_and_no_addresses():
    packages = json.loads((SOURCE / "package-lock.json").read_text())["packages"]
    assert all("resolved" not in package for package in packages.values())
    assert all(package.get("integrity", "").startswith("sha512-") for name, package in packages.items() if name)
