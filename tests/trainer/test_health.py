import json

import pytest
from rollout_records import RECORD
from training_platform import until

from parallelsearch.schemas.training import HealthSpec, StepMetrics
from trainer.health import diagnose
from trainer.records import RolloutRecord
from trainer.step_metrics import steps_of

RUNS = "/v1/training-runs"


def record(at, **changes):
    return RolloutRecord.model_validate({**RECORD, "time": at, **changes})


def test_steps_are_told_apart_by_time_and_kinds_by_name():
    records = [record(3, matched=False), record(1), record(2, kind="sequential", decomposed=False), record(4), record(5)]
    first, second = steps_of(records, 2)

    assert first.values["decomposed"] == 0.5
    assert first.values["decomposed/parallel"] == 1.0
    assert first.values["decomposed/sequential"] == 0.0
    assert second.values["wrong_with_evidence"] == 0.5
    assert second.values["search_share"] == pytest.approx(0.1)


def test_excluded_rollouts_count_in_their_share_alone_and_evaluation_in_none():
    (step,) = steps_of([record(1), record(2, excluded=True, matched=False), record(3, split="eval", matched=False)], 2)

    assert step.values["excluded"] == 0.5
    assert step.values["exact_match"] == 1.0


def test_groups_whose_rollouts_were_all_worth_the_same_are_counted_by_draw():
    records = [
        *(record(1, draw=0, learnt_reward=1.8, matched=False) for _ in range(2)),
        *(record(1, draw=1, learnt_reward=reward) for reward in (1.8, 0.1)),
        *(record(1, draw=2, learnt_reward=1.8, kind="sequential") for _ in range(2)),
        *(record(1, draw=3, learnt_reward=reward, excluded=reward > 0) for reward in (0.0, 0.1)),
        *(record(1, learnt_reward=reward, split="eval") for reward in (0.0, 1.0)),
    ]
    (step,) = steps_of(records, 8)

    assert step.values["uniform_groups"] == pytest.approx(2 / 3)
    assert step.values["uniform_groups/parallel"] == 0.5
    assert step.values["uniform_groups/sequential"] == 1.0


def run_of(**series):
    count = len(next(iter(series.values())))
    return [StepMetrics(step=n + 1, values={name: values[n] for name, values in series.items()}) for n in range(count)]


HEALTH = HealthSpec(window_steps=2)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (run_of(**{"decomposed/sequential": [0.1, 0.1, 0.4, 0.5]}), "over-parallelisation"),
        (run_of(searches=[2.0, 2.0, 0.3, 0.2]), "searches collapse"),
        (run_of(wrong_with_evidence=[0.2, 0.2, 0.6, 0.6]), "evidence ignored"),
        (run_of(kl=[0.0, 0.1, 3.0, 4.0]), "divergence"),
        (run_of(kl=[0.0, 0.1, 0.1, 0.1], not_finite=[0.0, 0.0, 1.0, 1.0])[:2] + run_of(not_finite=[1.0, 1.0]), "divergence"),
        (run_of(response_tokens=[50.0, 50.0, 400.0, 500.0]), "length runs away"),
        (run_of(reward=[0.5, 0.5, 1.5, 1.5, 0.3, 0.2]), "reward falls"),
    ],
)
def test_every_failure_signature_is_told_in_a_sentence(steps, words):
    (flag,) = diagnose(steps, HEALTH)

    assert flag.startswith(words)


@pytest.mark.parametrize(
    "steps",
    [
        run_of(**{"decomposed/sequential": [0.4, 0.4, 0.3, 0.05]}, searches=[2.0, 2.0, 1.2, 1.1], reward=[0.8, 0.9, 1.2, 1.3]),
        run_of(kl=[0.0, 0.0, 0.01, 0.02], response_tokens=[50.0, 50.0, 60.0, 60.0], wrong_with_evidence=[0.5, 0.5, 0.45, 0.4]),
        run_of(kl=[0.0, 9.0, 9.0]),
        [],
    ],
)
def test_a_healthy_run_or_one_too_young_has_no_flags(steps):
    assert diagnose(steps, HEALTH) == ()


def facts(folder, count, **changes):
    rows = [json.dumps({**RECORD, "time": float(n), **(changes if n >= count // 2 else {})}) for n in range(count)]
    return f"mkdir -p {folder}/rollouts; cat > {folder}/rollouts/facts-x-1.jsonl <<'END'\n" + "\n".join(rows) + "\nEND\n"


@pytest.mark.parametrize("action", ["flag", "stop"])
def test_a_sick_run_is_flagged_or_stopped_and_says_why(start_trainer, platform, action):
    platform.does(facts("$TRAINER_RUN_FOLDER", 8, searches=0) + "echo the last words; sleep 30")
    trainer = start_trainer()
    health = {"window_steps": 2, "action": action}
    run_id = trainer.submit(platform.spec(prompts_per_step=1, samples_per_prompt=2, micro_batch=2, health=health)).json()["id"]
    run = trainer.wait(run_id, "failed" if action == "stop" else "running")
    run = until(lambda: (found := trainer.run(run_id))["flags"] and found)

    assert "searches collapse" in run["flags"][0]
    if action == "stop":
        assert "searches collapse" in run["detail"]
        assert run["last_log_lines"] == ["the last words"]
    else:
        assert f'parallelsearch_training_searches_per_rollout{{kind="parallel",run="{run_id}"}} 0.0' in trainer.get("/metrics").text
        assert f'parallelsearch_training_reward{{kind="all",run="{run_id}",term="total"}} 1.8' in trainer.get("/metrics").text
    trainer.delete(f"{RUNS}/{run_id}")
    until(lambda: run_id not in trainer.get("/metrics").text)


def test_the_steps_of_a_run_that_goes_on_with_another_are_numbered_on(start_trainer, platform):
    trainer = start_trainer()
    small = {"prompts_per_step": 1, "samples_per_prompt": 2, "micro_batch": 2}
    first = trainer.submit(platform.spec(**small)).json()["id"]
    trainer.wait(first, "succeeded")
    states = platform.folder / "runs" / first / "checkpoints" / "_actor"
    states.mkdir(parents=True)
    (states / "latest").write_text("global_step40")
    platform.does(facts("$TRAINER_RUN_FOLDER", 4) + "echo \"Global step 41: {'kl': 0.25}\"")
    run_id = trainer.submit(platform.spec(**small, checkpoints={"resume_from": first})).json()["id"]
    trainer.wait(run_id, "succeeded")
    steps = trainer.get(f"{RUNS}/{run_id}/metrics").json()["steps"]

    assert [step["step"] for step in steps] == [41, 42]
    assert steps[0]["values"] | {"kl": 0.25, "exact_match": 1.0} == steps[0]["values"]


def test_metrics_of_a_run_hold_its_records_and_its_log(start_trainer, platform):
    line = "Global step 1: {'kl': 0.25, 'timing/generation': 3.5, 'exact_match': 0.1}"
    platform.does(facts("$TRAINER_RUN_FOLDER", 2) + f'echo "{line}"')
    trainer = start_trainer()
    run_id = trainer.submit(platform.spec(prompts_per_step=1, samples_per_prompt=2, micro_batch=2)).json()["id"]
    trainer.wait(run_id, "succeeded")
    (step,) = trainer.get(f"{RUNS}/{run_id}/metrics").json()["steps"]

    assert step["values"]["kl"] == 0.25
    assert step["values"]["timing/generation"] == 3.5
    assert step["values"]["exact_match"] == 1.0
    assert step["values"]["decomposed/parallel"] == 1.0
