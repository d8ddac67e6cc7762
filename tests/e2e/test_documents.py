"""The five commands of docs/documents.md, over a folder of PDFs, with the real policy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from document_files import write_pdf

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
