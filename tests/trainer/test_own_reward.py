"""A reward of the user's own: found missing when a run is submitted, by the interpreter that would run it."""

import os
import sys
import time

import psutil
import pytest

from parallelsearch.errors import InvalidInput
from parallelsearch.reward.scoring import Reward, RewardTerms
from trainer.imports import check_function
from trainer.worker import checked

RUNS = "/v1/training-runs"


@pytest.fixture
def rewards(tmp_path):
    """A folder of modules that the run's Python looks into."""
    (tmp_path / "good_reward.py").write_text("def reward(trajectory, kind, golden): ...\nNUMBER = 1\n")
    (tmp_path / "broken_reward.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "torn_reward.py").write_text("def reward(:\n")
    (tmp_path / "leaving_reward.py").write_text("import sys\nsys.exit(0)\n")
    return tmp_path


def has_ended(pid, within_s=10.0):
    """Killed a moment ago: the signal may still be on its way, and a zombie counts."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def check(rewards, place, **arguments):
    check_function(place, "reward.function", sys.executable, {"PYTHONPATH": str(rewards)}, **arguments)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("no_reward:reward", "No module named 'no_reward'"),
        ("good_reward:other", "has no attribute 'other'"),
        ("good_reward:NUMBER", "no function but int"),
        ("broken_reward:reward", "nothing_of_this_name"),
        ("torn_reward:reward", "SyntaxError"),
        ("leaving_reward:reward", "leaves the process"),
    ],
)
def test_a_function_that_a_run_would_not_find_is_refused_by_name(rewards, place, words):
    with pytest.raises(InvalidInput) as refused:
        check(rewards, place)

    assert refused.value.detail.startswith(f"reward.function: {place} cannot be used")
    assert words in refused.value.detail


def test_a_function_that_is_there_is_taken(rewards):
    check(rewards, "good_reward:reward")


def test_an_import_that_does_not_end_is_ended_with_all_that_it_started(rewards):
    (rewards / "slow_reward.py").write_text(
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(rewards / 'child')!r}).write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    with pytest.raises(InvalidInput, match="not ended after 2 s"):
        check(rewards, "slow_reward:reward", timeout_s=2.0)

    assert time.monotonic() - began < 10
    assert has_ended(int((rewards / "child").read_text()))


def test_the_code_of_others_sees_nothing_of_the_services_environment(rewards, monkeypatch):
    monkeypatch.setenv("ADMIN_TOKEN", "secret")
    (rewards / "curious_reward.py").write_text("import os\nassert 'ADMIN_TOKEN' not in os.environ\ndef reward(): ...\n")

    check(rewards, "curious_reward:reward")
    assert os.environ["ADMIN_TOKEN"] == "secret"


def test_a_submission_is_refused_and_a_dry_run_not(start_trainer, platform, rewards, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(rewards))
    platform.does(f'[ "$1" = -c ] && exec {sys.executable} "$@"; exit 0')
    trainer = start_trainer()
    missing, found = (platform.spec(reward={"function": f"{name}_reward:reward"}) for name in ("no", "good"))
    refused = trainer.submit(missing)

    assert refused.status_code == 422
    assert "reward.function" in refused.json()["detail"]
    assert trainer.get(RUNS).json()["runs"] == []
    assert trainer.post(f"{RUNS}/dry-run", json=missing).status_code == 200
    assert trainer.wait(trainer.submit(found).json()["id"], "succeeded")


def worth(value):
    terms = RewardTerms(outcome_and_format=0.0, decomposition=0.0, search_count=0.0, repetition=0.0)
    return Reward(value, terms, matched=True, well_formed=True, decomposed=False, searches=0, repeated_searches=0)


@pytest.mark.parametrize("value", [None, 1.0, worth(float("nan")), worth(float("inf")), worth(float("-inf"))])
def test_a_reward_that_nothing_can_be_learnt_from_is_named(value):
    with pytest.raises((TypeError, ValueError), match=r"reward.function mine:reward gave .*; give a "):
        checked("mine:reward", lambda *_: value)(None, None, ())


@pytest.mark.parametrize("value", [-1e6, 0.0, 0.3])
def test_any_finite_reward_is_taken(value):
    assert checked("mine:reward", lambda *_: worth(value))(None, None, ()).value == value
