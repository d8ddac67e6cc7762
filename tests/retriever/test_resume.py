"""A build killed twice and finished is, byte for byte, the undisturbed one; nothing of it is served before its end."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from parallelsearch.errors import ConfigurationError
from retriever.index.manifest import read_manifest
from retriever.index.opened import open_index


def start(corpus, out):
    command = [sys.executable, "-m", "retriever", "index", "build", str(corpus), "--out", str(out), "--encoder", "minilm"]
    options = ["--kind", "ivf_sq8", "--block-passages", "8"]
    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def killed_with_blocks(corpus, out, blocks):
    process = start(corpus, out)
    until = time.monotonic() + 100
    while len(list(out.glob(".building/block-*.npy"))) < blocks and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode


def finished(corpus, out):
    process = start(corpus, out)
    _, said = process.communicate(timeout=110)
    assert process.returncode == 0, said
    return said


def content(out):
    manifest = json.loads((out / "manifest.json").read_text())
    for varies in ("built_at", "build_seconds"):
        manifest.pop(varies)
    data = out / manifest["version"]
    return manifest, {path.name: path.read_bytes() for path in data.iterdir() if path.name != "manifest.json"}


@pytest.mark.e2e  # half a minute
@pytest.mark.timeout(400)
def test_a_build_killed_twice_and_finished_is_the_undisturbed_one(tmp_path, write_corpus, rows):
    corpus, disturbed, undisturbed = write_corpus(rows), tmp_path / "disturbed", tmp_path / "undisturbed"
    assert killed_with_blocks(corpus, disturbed, 1) == -signal.SIGKILL
    with pytest.raises(ConfigurationError, match="holds an unfinished build"):
        open_index(disturbed)
    assert killed_with_blocks(corpus, disturbed, 3) == -signal.SIGKILL
    assert "going on behind" in finished(corpus, disturbed)
    finished(corpus, undisturbed)
    assert content(disturbed) == content(undisturbed)
    assert not (disturbed / ".building").exists()
    assert read_manifest(disturbed).passages == len(rows)
