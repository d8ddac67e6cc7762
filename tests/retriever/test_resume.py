"""A build killed twice and finished is, byte for byte, the undisturbed one; nothing of it is served before its end."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from parallelsearch.errors import ConfigurationError
from retriever.encoders.lazy import settled_precision
from retriever.encoders.resolve import resolve, with_rules
from retriever.index.build import build
from retriever.index.manifest import read_manifest, verify_files
from retriever.index.opened import open_index
from retriever.index.plan import BuildPlan
from retriever.index.verified import STAMP_FILE


class Killed(BaseException):
    """Nothing of ours catches it, as nothing catches SIGKILL."""


class Killer:
    """Ends this thread's work at the n-th change to the files of a folder."""

    CHANGES = frozenset(("os.rename", "os.remove", "os.rmdir", "os.mkdir"))

    def __init__(self):
        self.folder, self.left, self.thread = None, 0, threading.get_ident()
        sys.addaudithook(self._look)

    def _look(self, event, arguments):
        if (
            self.folder is None
            or threading.get_ident() != self.thread
            or not (event in self.CHANGES or (event == "open" and "w" in str(arguments[1])))
        ):
            return
        # What shutil.rmtree removes it names within its folder.
        if str(self.folder) in str(arguments[0]) or not str(arguments[0]).startswith("/"):
            self.left -= 1
            if self.left == 0:
                raise Killed(event)

    def reaches_end(self, work, folder, changes):
        self.folder, self.left = folder, changes
        try:
            work()
        except Killed:
            return False
        finally:
            self.folder = None
        return True


@pytest.fixture
def killer():
    return Killer()


@pytest.fixture
def disturb(tmp_path, write_corpus, rows, minilm, killer):
    """Ends a build of five passages, over a served index of two, at each change of a file in turn, and builds it again."""
    older, corpus = write_corpus(rows[:2], "older.jsonl"), write_corpus(rows[:5])
    undisturbed, served = tmp_path / "undisturbed", tmp_path / "served"

    def work(out, source=corpus):
        return lambda: build(BuildPlan((source,), out, minilm, block_passages=2))

    def disturbed(begun):
        changes, ended = 0, False
        while not ended:
            changes += 1
            out = tmp_path / f"killed-{changes}"
            shutil.copytree(begun, out)
            ended = killer.reaches_end(work(out), out, changes)
            assert read_manifest(out).passages in (2, 5)
            verify_files(out, read_manifest(out))
            work(out)()
            assert content(out) == content(undisturbed)
            assert not (out / ".building").exists()
        return changes

    work(served, older)()
    shutil.copytree(served, undisturbed)
    work(undisturbed)()
    return served, work, disturbed


def test_a_build_that_is_killed_while_it_publishes_publishes_the_same_index(disturb, killer, tmp_path):
    served, work, disturbed = disturb
    encoded = tmp_path / "encoded"
    shutil.copytree(served, encoded)
    for changes in itertools.count(1):  # until all three blocks are there
        if len(list(encoded.glob(".building/block-*.npy"))) == 3:
            break
        assert not killer.reaches_end(work(encoded), encoded, changes)
    assert disturbed(encoded) > 8


@pytest.mark.e2e  # half a minute
def test_a_build_that_is_killed_at_any_change_of_a_file_goes_on_to_the_same_index(disturb):
    served, _, disturbed = disturb
    assert disturbed(served) > 20


def kill_encoded(plan, killer):
    """Leaves a build of five passages with all of its three blocks."""
    for changes in itertools.count(1):
        if len(list(plan.out.glob(".building/block-*.npy"))) == 3:
            break
        assert not killer.reaches_end(lambda: build(plan), plan.out, changes)


def another(name, plan, write_corpus, rows, tmp_path):
    """The plan with one thing changed."""
    if name == "corpus":
        return replace(plan, sources=(write_corpus(rows[1:6], "other.jsonl"),))
    if name == "--block-passages":
        return replace(plan, block_passages=3)
    if name == "settings of the encoder":
        folder = tmp_path / "encoder"
        shutil.copytree(plan.encoder.path, folder)
        (folder / "tokenizer_config.json").write_text((folder / "tokenizer_config.json").read_text() + " ")
        return replace(plan, encoder=resolve(str(folder)))
    if name == "--precision":
        return replace(plan, precision="bfloat16")
    field, value = {"pooling": ("pooling", "cls"), "prefix": ("passage_prefix", "p: "), "length": ("max_tokens", 9)}[name]
    return replace(plan, encoder=with_rules(plan.encoder, replace(plan.encoder.identity.rules, **{field: value})))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("corpus", "corpus"),
        ("pooling", "pooling of the encoder"),
        ("prefix", "passage prefix of the encoder"),
        ("length", "max tokens of the encoder"),
        ("settings of the encoder", "settings of the encoder"),
        ("--block-passages", "--block-passages"),
        ("--precision", "--precision"),
    ],
)
def test_what_was_encoded_for_another_build_is_never_gone_on_with(
    change, told, tmp_path, write_corpus, rows, minilm, killer, capsys
):
    plan = BuildPlan((write_corpus(rows[:5]),), tmp_path / "killed", minilm, block_passages=2)
    kill_encoded(plan, killer)
    changed = another(change, plan, write_corpus, rows, tmp_path)
    capsys.readouterr()
    build(changed)
    assert f"the build that did not end was of another {told}: " in capsys.readouterr().err
    build(replace(changed, out=tmp_path / "undisturbed"))
    assert content(plan.out) == content(tmp_path / "undisturbed")


@pytest.mark.parametrize("begun", ["float32", "bfloat16"])
def test_auto_goes_on_in_the_precision_that_was_begun_in_whatever_is_native_here(
    begun, tmp_path, write_corpus, rows, minilm, killer, capsys
):
    plan = BuildPlan((write_corpus(rows[:5]),), tmp_path / "killed", minilm, block_passages=2, precision=begun)
    kill_encoded(plan, killer)
    (plan.out / ".building" / "block-0000002.npy").unlink()
    capsys.readouterr()
    build(replace(plan, precision="auto"))
    assert "going on behind 4 encoded before" in capsys.readouterr().err
    build(replace(plan, out=tmp_path / "undisturbed"))
    assert content(plan.out) == content(tmp_path / "undisturbed")


def test_what_auto_came_to_is_kept_with_what_was_encoded(tmp_path, write_corpus, rows, minilm, killer):
    plan = BuildPlan((write_corpus(rows[:5]),), tmp_path / "killed", minilm, block_passages=2, precision="auto")
    kill_encoded(plan, killer)
    kept = json.loads((plan.out / ".building" / "plan.json").read_text())["--precision"]
    assert kept == settled_precision(minilm) != "auto"


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
    return manifest, {path.name: path.read_bytes() for path in data.iterdir() if path.name not in {"manifest.json", STAMP_FILE}}


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
