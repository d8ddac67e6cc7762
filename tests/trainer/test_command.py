"""The arguments of a run, read by the parsers of both pinned OpenRLHF wheels."""

from dataclasses import replace
from pathlib import Path

import pytest
from openrlhf_reading import PATHS, VERSIONS, parse

from parallelsearch.schemas.training import SPEC
from trainer.command import most_steps, openrlhf_command


def command(version="0.11.2", kind="reinforcement", **changes):
    spec = SPEC.validate_python({"kind": kind, "name": "small", "model": "m", "data": "d", **changes})
    return openrlhf_command(spec, PATHS, python="python3", version=version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("algorithm", "estimator", "critic"),
    [("grpo", "group_norm", None), ("ppo", "gae", "/models/small"), ("reinforce_baseline", "reinforce_baseline", None)],
)
def test_every_algorithm_is_accepted(openrlhf_sources, version, algorithm, estimator, critic):
    parsed, said = parse(openrlhf_sources, version, command(version, algorithm=algorithm, learning_rate=3e-6))

    assert parsed["algo"]["advantage"]["estimator"] == estimator
    assert parsed["critic"]["model_name_or_path"] == critic
    assert parsed["actor"]["adam"]["lr"] == 3e-6
    assert parsed["reward"]["remote_url"] == ["agent"]
    assert "Recommend" not in said


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_run_says_reaches_openrlhf(openrlhf_sources, version):
    spec = {
        "steps": 60,
        "prompts_per_step": 8,
        "samples_per_prompt": 4,
        "micro_batch": 2,
        "kl_coefficient": 0.01,
        "seed": 7,
        "rollout": {"turn_tokens": 200, "context_tokens": 3072, "temperature": 0.9},
        "resources": {"gpus_per_node": 2, "vllm_memory": 0.4},
        "evaluation": {"data": "e", "every_steps": 30, "samples": 2},
        "checkpoints": {"every_steps": 10, "keep": 2, "resume_from": "run-1"},
    }
    parsed, _ = parse(openrlhf_sources, version, command(version, **spec))

    assert parsed["data"]["max_len"] == 3072
    assert parsed["data"]["max_samples"] > 10**6, "this cuts the evaluation's rows too"
    assert parsed["rollout"] | {"max_new_tokens": 200, "temperature": 0.9, "batch_size": 8} == parsed["rollout"]
    assert parsed["train"] | {"batch_size": 32, "micro_batch_size": 2, "seed": 7, "num_episodes": 1} == parsed["train"]
    assert parsed["vllm"] | {"num_engines": 2, "enable_sleep": True, "gpu_memory_utilization": 0.4} == parsed["vllm"]
    assert parsed["ds"] | {"attn_implementation": "sdpa", "enable_sleep": True} == parsed["ds"]
    assert parsed["eval"] == {
        **parsed["eval"],
        "dataset": "/data/eval.jsonl",
        "steps": 30,
        "n_samples_per_prompt": 2,
        "temperature": 0.0,
    }
    assert (
        parsed["ckpt"] | {"save_steps": 10, "save_hf": True, "max_num": 2, "load_enable": False, "best_metric_key": "none"}
        == parsed["ckpt"]
    )
    assert {parsed[role]["num_gpus_per_node"] for role in ("actor", "ref", "critic", "reward")} == {2}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_importance_correction_of_either_version(openrlhf_sources, version):
    parsed, _ = parse(openrlhf_sources, version, command(version, importance_correction=True))
    advantage = parsed["algo"]["advantage"]

    assert advantage.get("is_correction_enable") or (advantage["is_correction_level"], advantage["is_correction_mode"]) == (
        "token",
        "clip",
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_flash_attention_packs_samples(openrlhf_sources, version):
    parsed, said = parse(openrlhf_sources, version, command(version, resources={"attention": "flash_attention_2"}))

    assert parsed["ds"]["packing_samples"]
    assert "Warning" not in said


@pytest.mark.parametrize("version", VERSIONS)
def test_where_everything_fits_nothing_sleeps(openrlhf_sources, version):
    parsed, _ = parse(openrlhf_sources, version, command(version, resources={"sleep": False}))

    assert not parsed["vllm"]["enable_sleep"]
    assert not parsed["ds"]["enable_sleep"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cold_start_is_accepted(openrlhf_sources, version):
    spec = {"epochs": 2, "batch": 32, "learning_rate": 1e-4, "lora": {"rank": 8, "alpha": 16}}
    parsed, _ = parse(openrlhf_sources, version, command(version, kind="supervised", **spec))

    assert parsed["model"]["model_name_or_path"] == "/models/small"
    assert parsed["train"] | {"batch_size": 32, "max_epochs": 2} == parsed["train"]
    assert parsed["adam"]["lr"] == 1e-4
    assert parsed["ds"]["lora"] | {"rank": 8, "alpha": 16} == parsed["ds"]["lora"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_resumed_run_reads_and_adds_to_the_checkpoints_of_the_other(openrlhf_sources, version):
    spec = SPEC.validate_python({"kind": "reinforcement", "name": "small", "model": "m", "data": "d"})
    resumed = openrlhf_command(spec, replace(PATHS, resumed=Path("/runs/old")), python="python3", version=version)
    parsed, _ = parse(openrlhf_sources, version, resumed)

    assert parsed["ckpt"] | {"path": "/runs/old/checkpoints", "load_enable": True} == parsed["ckpt"]


@pytest.mark.parametrize("version", VERSIONS)
def test_weights_and_biases_is_logged_to_with_the_key_of_the_environment(openrlhf_sources, version):
    parsed, _ = parse(openrlhf_sources, version, command(version, wandb_project="p"))

    assert parsed["logger"]["wandb"] | {"project": "p", "key": "from-the-environment"} == parsed["logger"]["wandb"]


def test_the_same_specification_gives_the_same_command():
    assert command() == command()


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_reach_openrlhf_as_they_are(openrlhf_sources, version):
    odd = {"learning_rate": 1.2345678901e-07, "critic_learning_rate": 0.123456789012, "kl_coefficient": 1.00000001}
    spec = {**odd, "algorithm": "ppo", "steps": 1_000, "prompts_per_step": 1_000, "checkpoints": {"every_steps": 1_234_567}}
    rollout, resources = {"temperature": 0.7000001}, {"vllm_memory": 0.9876543}
    parsed, _ = parse(openrlhf_sources, version, command(version, **spec, rollout=rollout, resources=resources))

    assert parsed["actor"]["adam"]["lr"] == odd["learning_rate"]
    assert parsed["critic"]["adam"]["lr"] == odd["critic_learning_rate"]
    assert parsed["algo"]["kl"]["init_coef"] == odd["kl_coefficient"]
    assert parsed["rollout"]["temperature"] == rollout["temperature"]
    assert parsed["vllm"]["gpu_memory_utilization"] == resources["vllm_memory"]
    assert parsed["ckpt"]["save_steps"] == 1_234_567


@pytest.mark.parametrize(
    ("version", "rows", "changes", "steps"),
    [
        ("0.11.2", 64, {}, 1),
        ("0.11.2", 63, {}, 0),
        ("0.11.2", 40, {"epochs": 2}, 1),
        ("0.11.2", 39, {"epochs": 2}, 1),
        ("0.11.2", 31, {"epochs": 3}, 1),
        ("0.11.2", 15, {"epochs": 5}, 0),
        ("0.11.2", 15, {"epochs": 8}, 1),
        ("0.11.2", 31, {"epochs": 3, "resources": {"gpus_per_node": 2}}, 0),
        ("0.10.4", 64, {}, 1),
        ("0.10.4", 63, {"epochs": 9}, 0),
    ],
)
def test_the_steps_of_a_cold_start_are_counted_as_openrlhf_makes_them(version, rows, changes, steps):
    spec = SPEC.validate_python({"kind": "supervised", "name": "small", "model": "m", "data": "d", "batch": 64, **changes})
    assert most_steps(spec, rows, version) == steps
