"""What docs/training.md shows is what the trainer takes, and docs/trainer.md names its routes and metrics."""

import json
import re
import runpy
from pathlib import Path

import pytest
from evaluation_fakes import a_trajectory
from openrlhf_reading import PATHS, VERSIONS, parse

from parallelsearch.reward.scoring import score
from parallelsearch.rollout.types import Kind
from parallelsearch.schemas.training import SPEC
from trainer import metrics
from trainer.command import openrlhf_command
from trainer.endpoints import router

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT, SERVICE = ((DOCS / name).read_text() for name in ("training.md", "trainer.md"))


def shown(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("written", shown("json"), ids=lambda written: json.loads(written)["name"])
def test_openrlhf_reads_the_specifications(openrlhf_sources, version, written):
    spec = SPEC.validate_json(written)
    parsed, _ = parse(openrlhf_sources, version, openrlhf_command(spec, PATHS, python="python3", version=version))
    assert parsed["train"]["batch_size"] == spec.prompts_per_step * spec.samples_per_prompt
    assert parsed["vllm"]["num_engines"] == spec.resources.gpus_per_node
    assert parsed["ds"]["zero_stage"] == spec.resources.zero_stage


def test_the_reward_of_ones_own_is_a_reward(tmp_path):
    (tmp_path / "my_rewards.py").write_text(shown("python")[0])
    brief = runpy.run_path(str(tmp_path / "my_rewards.py"))["brief"]
    searches = [f"<search> query {number} </search>" for number in range(3)]
    for turns, less in ((2, 0.0), (3, 0.05), (4, 0.10)):
        rollout = a_trajectory(*searches[: turns - 1], "<answer> Claude Monet </answer>")
        taken = score(rollout, Kind.SEQUENTIAL, ["Claude Monet"]).value - brief(rollout, Kind.SEQUENTIAL, ["Claude Monet"]).value
        assert taken == pytest.approx(less)


def test_every_route_is_documented_and_says_whether_it_needs_the_token():
    prefix = "/v1/training-runs"
    rows = re.findall(r"^\| `([A-Z]+) ([^` ]+)`( \\\*)? \|", SERVICE, re.M)
    documented = {(method, path.replace("…", prefix), bool(guarded)) for method, path, guarded in rows}
    routes = {
        (method, route.path.replace("{run_id}", "{id}"), bool(route.dependencies))
        for route in router.routes
        for method in route.methods
    }
    assert documented == routes


def test_every_metric_is_documented_and_every_documented_one_exists():
    source = Path(metrics.__file__).read_text()
    assert set(re.findall(r"`(parallelsearch_training_\w+)`", SERVICE)) == set(
        re.findall(r'"(parallelsearch_training_\w+)"', source)
    )
