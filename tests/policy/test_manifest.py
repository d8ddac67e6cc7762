from pathlib import Path

import pytest

from policy import manifest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    manifest.write(folder, manifest.describe(folder, "source"))
    return folder


def test_a_whole_directory_has_no_fault(model: Path) -> None:
    assert manifest.fault(model, "source") is None


def test_a_changed_byte_is_found(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"Weights")
    assert manifest.fault(model, "source") == "model.safetensors is missing or damaged"


def test_a_missing_file_is_found(model: Path) -> None:
    (model / "config.json").unlink()
    assert manifest.fault(model, "source") == "config.json is missing or damaged"


def test_another_source_is_found(model: Path) -> None:
    assert manifest.fault(model, "other") == "it was made from another base or adapter"


@pytest.mark.parametrize("content", ["", "[]", '{"source": 1}', '{"source": "source", "files": [{"name": 1}]}'])
def test_a_broken_manifest_is_a_fault(model: Path, content: str) -> None:
    (model / manifest.FILE_NAME).write_text(content)
    assert manifest.fault(model, "source") == "its manifest cannot be read"


def test_absence_is_a_fault(tmp_path: Path, model: Path) -> None:
    (model / manifest.FILE_NAME).unlink()
    assert manifest.fault(model, "source") == "it has no manifest"
    assert manifest.fault(tmp_path / "nothing", "source") == "there is none"
