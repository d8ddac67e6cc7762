"""Documents end to end: the five commands of docs/documents.md with the real policy, and a sync killed at any moment."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from document_files import write_pdf

from retriever.documents.records import read_records
from retriever.index.manifest import read_manifest
from retriever.index.opened import open_index

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "lakes.pdf": ["A handbook of lakes.", "Lake Baikal is 1642 metres deep.", "Lake Tanganyika is 1470 metres deep."],
    "rivers.pdf": ["The Nile is 6650 kilometres long.", "The Amazon carries the most water of all rivers."],
}


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_the_documented_commands_lead_from_a_folder_of_pdfs_to_the_openai_api(tmp_path):
    (tmp_path / "pdfs").mkdir()
    for name, pages in PAGES.items():
        write_pdf(tmp_path / "pdfs" / name, pages)
    command = [sys.executable, "benchmarks/documents_walkthrough.py", tmp_path / "pdfs", "--out", tmp_path / "transcript.md"]
    done = subprocess.run([*map(str, command), "--port", "24180"], cwd=ROOT, capture_output=True, text=True, check=False)
    transcript = (tmp_path / "transcript.md").read_text()
    assert done.returncode == 0, transcript + done.stderr
    assert transcript.count("exit code 0") == 5
    assert "lakes.pdf, page 2" in transcript
    assert re.search(r'"source":"(lakes|rivers)\.pdf","page":\d', transcript.split("chat/completions")[-1])


def sync(folder, index, **options):
    command = [sys.executable, "-m", "parallelsearch", "index", "sync", str(folder), "--index", str(index), "--encoder", "minilm"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.e2e
@pytest.mark.timeout(400)
def test_killed_at_any_moment_a_sync_leaves_the_old_index_or_the_new_one(tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    (folder / "first.txt").write_text("The first document, about lakes.")
    sync(folder, index).communicate(timeout=120)
    first = read_manifest(index)
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"Document number {number}. " + f"It says {number} many times. " * 60)
    for moment in ("document", "data/passages.jsonl", "data/documents.jsonl", "block-0000000.part", "data/vectors.npy"):
        process = sync(folder, index)
        until = time.monotonic() + 60
        while not (index / ".building" / moment).exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        served = read_manifest(index)
        open_index(index).close()
        if process.returncode == 0 or served.version != first.version:
            break
        assert served == first
    process = sync(folder, index)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert len(read_records(index / read_manifest(index).version)) == 41
    assert not (index / ".building").exists()
    open_index(index).close()
