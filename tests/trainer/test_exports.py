"""Models that a run leaves behind: torn ones are no checkpoint, old ones go, and a full disk takes no good one away."""

import json
import os
import shutil
from contextlib import suppress

import numpy as np
import pytest
import torch
from processes import wait_for
from safetensors.numpy import save_file

from parallelsearch.schemas.training import SPEC, RunState
from trainer.exports import drop_old, drop_torn, exports
from trainer.store import Run, Store, now

RUNS = "/v1/training-runs"


def write(checkpoints, step):
    folder = checkpoints / f"global_step{step}_hf"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    save_file({"w": np.arange(100, dtype=np.float32)}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("bytes_left", [0, 4, 8, 40, 487])
def test_weights_that_end_early_are_not_whole(tmp_path, bytes_left):
    weights = write(tmp_path, 1) / "model.safetensors"
    assert exports(tmp_path)[0].is_whole
    os.truncate(weights, bytes_left)

    assert not exports(tmp_path)[0].is_whole


def test_an_adapter_of_either_form_is_a_whole_export(tmp_path):
    for step, name in enumerate(("adapter_model.safetensors", "adapter_model.bin")):
        weights = write(tmp_path, step) / "model.safetensors"
        if name.endswith(".bin"):
            torch.save({"w": torch.zeros(3)}, weights)
        weights.rename(weights.with_name(name))
        assert exports(tmp_path)[step].is_whole
        size = weights.with_name(name).stat().st_size
        os.truncate(weights.with_name(name), size - 1)
        assert not exports(tmp_path)[step].is_whole


def header(text):
    return len(text).to_bytes(8, "little") + text


OFFSETS = ['"a"', '["a", "b"]', "[0, null]", "[0, [1]]", "[0]", "{}", "[0, 1e400]", "1"]
ODD = [header(b'{"w": {"data_offsets": %s}}' % offsets.encode()) for offsets in OFFSETS]
ODD += [header(text) for text in (b"[]", b"1", b'{"w": 1}', b"\xff", b"[" * 100_000, b'{"a":' * 100_000)]


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_weights_of_any_content_are_whole_or_not_and_hold_up_nothing(tmp_path, content, name):
    folder = write(tmp_path, 1)
    (folder / name).write_bytes(content if name.endswith("tensors") else content[8:])
    drop_old(tmp_path, 2)
    drop_torn(tmp_path)

    assert exports(tmp_path) == []


def test_a_model_in_shards_is_whole_when_every_shard_is(tmp_path):
    folder = write(tmp_path, 1)
    index = {"weight_map": {"w": "model.safetensors", "v": "other.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert not exports(tmp_path)[0].is_whole
    save_file({"v": np.zeros(3, np.float32)}, folder / "other.safetensors")

    assert exports(tmp_path)[0].is_whole


def test_the_last_whole_ones_are_kept_by_number_of_step(tmp_path):
    for step in (5, 20, 100):
        write(tmp_path, step)
    os.truncate(write(tmp_path, 120) / "model.safetensors", 10)
    (tmp_path / "_actor").mkdir()
    drop_old(tmp_path, 2)

    assert [export.step for export in exports(tmp_path)] == [20, 100, 120]
    drop_torn(tmp_path)
    assert [export.step for export in exports(tmp_path)] == [20, 100]
    assert (tmp_path / "_actor").is_dir()


def test_when_the_disk_fills_the_last_good_checkpoint_stays_and_the_run_says_why(start_trainer, platform, small_disk):
    good = write(platform.folder / "good", 20)
    platform.does(
        f"""
        set -e
        cd "$TRAINER_RUN_FOLDER"
        mkdir -p checkpoints/global_step40_hf
        cp -r {good} checkpoints/
        cp {good}/config.json checkpoints/global_step40_hf/
        cp {good}/model.safetensors checkpoints/global_step40_hf/
        truncate -s 40 checkpoints/global_step40_hf/model.safetensors
        cat /dev/zero >> checkpoints/global_step40_hf/model.safetensors
        """
    )
    trainer = start_trainer(runs_dir=small_disk / "runs")
    run_id = trainer.submit(platform.spec()).json()["id"]
    run = trainer.wait(run_id, "failed")

    assert "is full" in run["detail"]
    assert [entry["step"] for entry in trainer.get(f"{RUNS}/{run_id}/checkpoints").json()["checkpoints"]] == [20]


def test_a_run_that_fills_the_disk_before_its_start_is_recorded_is_failed_and_tidied(start_trainer, platform, small_disk):
    """As if it had been faster than the record of its start: the disk is full of what it left, and it is queued."""
    good, runs = write(platform.folder / "good", 20), small_disk / "runs"
    store = Store(runs / "runs.sqlite")
    run_id = store.add(Run("run-fast", RunState.QUEUED, SPEC.validate_python(platform.spec()), now())).id
    shutil.copytree(good, runs / run_id / "checkpoints" / good.name)
    torn = shutil.copytree(good, runs / run_id / "checkpoints" / "global_step40_hf") / "model.safetensors"
    os.truncate(torn, 40)
    with suppress(OSError), torn.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    store.close()
    run = start_trainer(runs_dir=runs).wait(run_id, "failed")

    assert "is full" in run["detail"]
    assert [export.step for export in exports(runs / run_id / "checkpoints")] == [20]


def test_a_full_disk_refuses_runs_in_a_sentence_and_states_are_right_once_there_is_room(start_trainer, platform, small_disk):
    platform.does('cat /dev/zero > "$TRAINER_RUN_FOLDER/filler"; exit 4')
    trainer = start_trainer(runs_dir=small_disk / "runs")
    run_id = trainer.submit(platform.spec()).json()["id"]
    wait_for(lambda: shutil.disk_usage(small_disk).free == 0)
    refused = trainer.submit(platform.spec())
    while refused.status_code == 201:
        refused = trainer.submit(platform.spec())

    assert refused.status_code == 503
    assert "TRAINER_RUNS_DIR" in refused.json()["detail"]
    platform.does("exit 4")  # for those that were taken while there was room: they must not fill it again
    for filler in (small_disk / "runs").glob("*/filler"):
        filler.unlink()
    assert trainer.wait(run_id, "failed")
