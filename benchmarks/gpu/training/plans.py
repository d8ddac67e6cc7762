"""The runs of the training benchmarks, by plan. A model is a folder below the roots, or `run:NAME` for what another run learnt.

Evaluation samples at temperature 1, which is the policy that is trained and shows a boundary half learnt; `improve` is greedy,
which is how answers are served. A model that was brought along (install.sh) stands for the run that learnt it.
"""

import os
from pathlib import Path

ROLLOUT = {"turn_tokens": 200, "context_tokens": 3072, "max_turns": 3, "concurrency": 64}
RESOURCES = {"gpus_per_node": 1, "vllm_memory": 0.1, "vllm_cache_gib": 5, "attention": "sdpa", "sleep": False}
STEPS, SHORT, PROMPTS, SAMPLES, RATE = 64, 30, 8, 8, 5e-5
NO_CHANGE = 1e-15
"""A learning rate that leaves the weights as they are; 0 is no learning rate of a run."""


def cold_start(name, data, **changes):
    return {
        "kind": "supervised",
        "name": name,
        "model": "base",
        "data": data,
        "epochs": 2,
        "batch": 64,
        "micro_batch": 4,
        "learning_rate": 2e-4,
        "resources": RESOURCES,
        "checkpoints": {"every_steps": 100_000},
        **changes,
    }


def reinforce(
    name,
    model,
    data,
    *,
    algorithm="grpo",
    seed=42,
    decomposition=0.15,
    search_count=0.35,
    steps=STEPS,
    rate=RATE,
    temperature=1.0,
    samples=None,
    **changes,
):
    return {
        "kind": "reinforcement",
        "name": name,
        "model": model,
        "data": data,
        "algorithm": algorithm,
        "steps": steps,
        "prompts_per_step": PROMPTS,
        "samples_per_prompt": SAMPLES,
        "micro_batch": 8,
        "learning_rate": rate,
        "kl_coefficient": 0.001,
        "seed": seed,
        "reward": {"preset": "strict", "weights": {"decomposition": decomposition, "search_count": search_count}},
        "rollout": ROLLOUT,
        "resources": RESOURCES,
        "checkpoints": {"every_steps": 100_000},
        "evaluation": {
            "data": data.replace(".jsonl", "_eval.jsonl"),
            "every_steps": steps,
            "temperature": temperature,
            "samples": samples or (4 if temperature else 1),
        },
        "health": {"action": "flag"},
        **changes,
    }


def on_cards(name, gpus, **resources):
    resources = RESOURCES | {"gpus_per_node": gpus} | resources
    return reinforce(name, MIXED, BOUNDARY, steps=10, micro_batch=4, evaluation={}, resources=resources)


LORA = {"lora": {"rank": 24, "alpha": 48}, "batch": 32, "learning_rate": 1e-3}
START = "cold-mixed"
MIXED = START if (Path(os.environ.get("TRAIN", "/nowhere")) / "models" / START).is_dir() else f"run:{START}"
BOUNDARY = "boundary.jsonl"
CENTRE = (0.15, 0.35)  # the weights of the published reward
GRID = sorted(
    ((d, s) for d in (0.0, 0.15, 0.35, 0.5) for s in (0.0, 0.35, 0.7)), key=lambda at: (at[0] != CENTRE[0]) + (at[1] != CENTRE[1])
)
"""The weights of decomposition and search count: first the published ones, then those that differ in one, then the rest."""

PLANS = {
    # The start that has not learnt the boundary: nine minutes alone on an H200; starts/cold-mixed stands for it where that is. Then
    # the twins, whose adapters are kept. They take 38 GB of a card each, to their end: not beside more than two others.
    "start": [cold_start(START, "cold_mixed.jsonl", **LORA | {"lora": {"rank": 8, "alpha": 16}, "micro_batch": 8})],
    "twins": [
        cold_start("cold-sequential", "cold_sequential.jsonl", **LORA),
        cold_start("cold-parallel", "cold_parallel.jsonl", **LORA),
    ],
    # The central claim with a second seed, its control, and the start as it is (one step that changes nothing); then the bundled
    # policy likewise.
    "claim": [
        reinforce("boundary-seed42", MIXED, BOUNDARY),
        reinforce("boundary-control", MIXED, BOUNDARY, decomposition=0.0, search_count=0.0),
        reinforce("boundary-seed43", MIXED, BOUNDARY, seed=43),
        reinforce("before", MIXED, BOUNDARY, steps=1, rate=NO_CHANGE),
    ],
    "improve": [
        reinforce("improve-bundled", "bundled", "improve.jsonl", temperature=0.0),
        reinforce("before-bundled", "bundled", "improve.jsonl", steps=1, temperature=0.0, rate=NO_CHANGE),
    ],
    # The ablation, in fewer steps and smaller batches, so that four of its twelve runs fit a card: `ablation-d0.15-s0.35`, …
    # Its first run is also what the other algorithms stand beside.
    "algorithms": [
        reinforce("ppo", MIXED, BOUNDARY, algorithm="ppo", steps=SHORT, micro_batch=4, samples=2),
        reinforce("reinforce-baseline", MIXED, BOUNDARY, algorithm="reinforce_baseline", steps=SHORT, micro_batch=4, samples=2),
    ],
    "ablation": [
        reinforce(
            f"ablation-d{d:g}-s{s:g}",
            MIXED,
            BOUNDARY,
            decomposition=d,
            search_count=s,
            steps=SHORT,
            micro_batch=4,
            samples=2,
        )
        for d, s in GRID
    ],
    # Twice the learning rate, with both seeds.
    "rates": [reinforce(f"rate-{2 * RATE:g}-seed{seed}", MIXED, BOUNDARY, rate=2 * RATE, seed=seed) for seed in (42, 43)],
    # Over two cards of a host, each of which holds policy, reference and vLLM, beside the same run on one; then with the weights
    # themselves shared out, and a cold start. Without evaluation: these are measured in training.
    "cards": [
        on_cards("cards-2", 2),
        on_cards("cards-1", 1),
        on_cards("cards-zero3", 2, zero_stage=3),
        cold_start("cards-cold", "cold_short.jsonl", resources=RESOURCES | {"gpus_per_node": 2}),
    ],
    # Does everything start, step and end? Five minutes on one card.
    "smoke": [
        reinforce("smoke", "bundled", BOUNDARY, steps=3),
        reinforce("smoke-ppo", "bundled", BOUNDARY, algorithm="ppo", steps=2),
    ],
}


def specs_of(plan):
    """The runs of a plan, or the one run of that name."""
    return PLANS.get(plan) or [spec for specs in PLANS.values() for spec in specs if spec["name"] == plan]
