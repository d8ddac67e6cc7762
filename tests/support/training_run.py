"""In OpenRLHF's place: leaves behind what a run that trains leaves (facts of rollouts, OpenRLHF's line of a step), a step a second.

usage: python training_run.py, with TRAINER_RUN_FOLDER as the trainer sets it
"""

import itertools
import os
import random
import sys
import time
from pathlib import Path

from parallelsearch.rollout.types import Kind, StopReason
from trainer.records import FOLDER, RolloutRecord

ROLLOUTS = 16
"""Of a step: as many as the specification of the run asks for."""


def record(at, kind):
    matched = random.random() < 0.4
    return RolloutRecord(
        time=time.time(),
        id=f"rollout-{at}",
        kind=kind,
        split="train",
        stop_reason=StopReason.ANSWERED,
        reward=1.35 if matched else 0.45,
        learnt_reward=1.35 if matched else 0.45,
        outcome_and_format=1.0 if matched else 0.1,
        decomposition=0.15,
        search_count=0.2,
        repetition=0.0,
        matched=matched,
        well_formed=True,
        decomposed=kind is Kind.PARALLEL,
        searches=1,
        repeated_searches=0,
        turns=2,
        malformed=0,
        sub_queries=2,
        policy_tokens=60,
        evidence_observed=True,
        excluded=False,
        search_ms=20.0,
        total_ms=900.0,
    )


def main():
    folder = Path(os.environ["TRAINER_RUN_FOLDER"]) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for step in itertools.count(1):
        with (folder / "facts-worker-1.jsonl").open("a") as facts:
            for at, kind in zip(range(ROLLOUTS), itertools.cycle(Kind)):
                facts.write(record(at, kind).model_dump_json() + "\n")
        sys.stdout.write(f"Global step {step}: {{'kl': {0.001 * step}, 'policy_loss': 0.1}}\n")
        sys.stdout.flush()
        time.sleep(1)


if __name__ == "__main__":
    main()
