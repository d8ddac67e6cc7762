"""A service that cannot work says why in one line, without a trace, and ends: as a process, from its real entry point."""

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from service_stand_ins import free_port

from trainer.store import RECORD, Store

SERVICES = ("gateway", "retriever", "policy", "trainer")
CLUSTER = {"TRAINER_KUBERNETES__IMAGE": "image", "TRAINER_KUBERNETES__CLAIM": "runs", "TRAINER_KUBERNETES__MOUNT": "/runs"}
NO_FOLDER = "/proc/parallelsearch"
"""Not to be written to, not even as root."""


def refusal(service, tmp_path, **settings):
    """What the process wrote, once it has ended by itself."""
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "RETRIEVER_", "POLICY_", "TRAINER_"))
    }
    defaults = {"PARALLELSEARCH_CACHE_DIR": str(tmp_path / "cache"), "TRAINER_RUNS_DIR": str(tmp_path / "runs")}
    settings = {f"{service.upper()}_PORT": str(free_port())} | defaults | {"RETRIEVER_INDEX": str(tmp_path)} | settings
    command = [sys.executable, "-m", service]
    done = subprocess.run(command, env=outside | settings, capture_output=True, text=True, timeout=60, check=False)
    written = done.stdout + done.stderr
    assert done.returncode == 1, written
    assert "Traceback" not in written
    assert len(written.strip().splitlines()) == 1, written
    assert "Value error" not in written  # pydantic's word, which tells a reader nothing
    return written


@pytest.mark.parametrize("service", SERVICES)
def test_a_port_that_is_taken(service, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        name, port = f"{service.upper()}_PORT", taken.getsockname()[1]
        said = refusal(service, tmp_path, **{name: str(port)})
    assert f"Port {port}" in said
    assert name in said


@pytest.mark.parametrize(
    ("service", "variable", "place"),
    [
        ("gateway", "GATEWAY_STORE_PATH", f"{NO_FOLDER}/answers.sqlite"),
        ("gateway", "TRACE_FILE", f"{NO_FOLDER}/trace.json"),
        ("trainer", "TRAINER_RUNS_DIR", NO_FOLDER),
        ("policy", "PARALLELSEARCH_CACHE_DIR", NO_FOLDER),
    ],
)
def test_a_volume_that_cannot_be_written_to(service, variable, place, tmp_path):
    assert f"{variable}: {NO_FOLDER}" in refusal(service, tmp_path, **{variable: place})


@pytest.mark.parametrize(
    ("service", "settings", "named"),
    [
        ("gateway", {"GATEWAY_HOST": "0.0.0.0"}, "GATEWAY_API_KEYS_FILE"),
        ("gateway", {"GATEWAY_HOST": "0.0.0.0", "GATEWAY_API_KEYS_FILE": "/nowhere/keys.json"}, "/nowhere/keys.json"),
        ("policy", {"POLICY_CHECKPOINT": "/nowhere/model"}, "/nowhere/model"),
        ("retriever", {"RETRIEVER_INDEX": "/nowhere/index"}, "/nowhere/index"),
        ("trainer", {"TRAINER_MAX_RUNNING": "none"}, "TRAINER_MAX_RUNNING"),
        ("trainer", {"TRAINER_RAY_ADDRESS": "head:8265"}, "TRAINER_RAY_ADDRESS"),
        ("trainer", {"TRAINER_KUBERNETES__IMAGE": "image"}, "TRAINER_KUBERNETES__CLAIM"),
        ("trainer", CLUSTER, "TRAINER_KUBERNETES__KUBECONFIG"),
        ("trainer", CLUSTER | {"TRAINER_KUBERNETES__KUBECONFIG": "/nowhere/kubeconfig"}, "/nowhere/kubeconfig"),
    ],
)
def test_a_missing_secret_model_or_index_and_a_wrong_setting(service, settings, named, tmp_path):
    assert named in refusal(service, tmp_path, **settings)


@pytest.mark.parametrize("damage", ["no database", "torn", "of another version", "a folder"])
def test_a_record_of_training_runs_that_cannot_be_used(damage, tmp_path):
    record = tmp_path / "runs" / RECORD
    Store(record).close()
    match damage:
        case "no database":
            record.write_text("This was a database once. " * 1_000)
        case "torn":
            record.write_bytes(record.read_bytes()[:5_000] + b"\xff" * (record.stat().st_size - 5_000))
        case "of another version":
            with closing(sqlite3.connect(record)) as connection:
                connection.execute("ALTER TABLE training_runs DROP COLUMN flags")
        case "a folder":
            record.unlink()
            record.mkdir()
    said = refusal("trainer", tmp_path)
    assert "TRAINER_RUNS_DIR" in said
    assert str(record) in said
