"""The trainer's Prometheus metrics: the last whole step of each run that is running."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Gauge

from parallelsearch.schemas.training import RunState, StepMetrics

RUNS = Gauge("parallelsearch_training_runs", "Training runs", ["state"])
STEP = Gauge("parallelsearch_training_step", "Last whole step", ["run"])
FLAGS = Gauge("parallelsearch_training_flags", "Failure signatures that show", ["run"])
REWARD = Gauge("parallelsearch_training_reward", "Reward terms, mean of the step", ["run", "kind", "term"])
EXACT_MATCH = Gauge("parallelsearch_training_exact_match", "Exact match, mean of the step", ["run", "kind"])
DECOMPOSED = Gauge("parallelsearch_training_decomposition_ratio", "First searches with several sub-queries", ["run", "kind"])
SEARCHES = Gauge("parallelsearch_training_searches_per_rollout", "Searches per rollout", ["run", "kind"])
WRONG_WITH_EVIDENCE = Gauge("parallelsearch_training_wrong_with_evidence", "Wrong although retrieved", ["run", "kind"])
EXCLUDED = Gauge("parallelsearch_training_excluded_ratio", "Rollouts left out of the update", ["run"])
KL = Gauge("parallelsearch_training_kl", "KL to the start", ["run"])
ALL = "all"
BY_KIND = {"exact_match": EXACT_MATCH, "decomposed": DECOMPOSED, "searches": SEARCHES, "wrong_with_evidence": WRONG_WITH_EVIDENCE}
OF_RUN = (STEP, FLAGS, REWARD, EXACT_MATCH, DECOMPOSED, SEARCHES, WRONG_WITH_EVIDENCE, EXCLUDED, KL)


def show_states(counts: Mapping[str, int]) -> None:
    for state in RunState:
        RUNS.labels(state).set(counts.get(state, 0))


def show_step(run_id: str, step: StepMetrics, flags: int) -> None:
    STEP.labels(run_id).set(step.step)
    FLAGS.labels(run_id).set(flags)
    for full_name, value in step.values.items():
        name, _, kind = full_name.partition("/")
        if name in BY_KIND:
            BY_KIND[name].labels(run_id, kind or ALL).set(value)
        elif name.startswith("reward"):
            REWARD.labels(run_id, kind or ALL, name.removeprefix("reward_").replace("reward", "total")).set(value)
        elif name == "excluded":
            EXCLUDED.labels(run_id).set(value)
        elif full_name == "kl":
            KL.labels(run_id).set(value)


def forget(run_id: str) -> None:
    """A run that is over shows no more."""
    for gauge in OF_RUN:
        gauge.remove_by_labels({"run": run_id})
