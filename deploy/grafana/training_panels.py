"""The dashboard Training: runs, rewards and behaviour by kind of question."""

from __future__ import annotations

from panels import Dashboard, Panel, Query, Row, Unit

TRAINING = Dashboard(
    "parallelsearch-training",
    "Training",
    (
        Row(
            "Runs",
            (
                Panel(
                    "Runs by state",
                    "All that the trainer knows.",
                    Unit.COUNT,
                    (Query("max by (state) (parallelsearch_training_runs)", "{{state}}"),),
                ),
                Panel(
                    "Step",
                    "Last whole step of each run that is running.",
                    Unit.COUNT,
                    (Query("max by (run) (parallelsearch_training_step)", "{{run}}"),),
                ),
                Panel(
                    "Failure signatures",
                    "That show in a run; the trainer's API says which.",
                    Unit.COUNT,
                    (Query("max by (run) (parallelsearch_training_flags)", "{{run}}"),),
                ),
                Panel(
                    "KL to the start",
                    "Of the policy that is trained.",
                    Unit.COUNT,
                    (Query("max by (run) (parallelsearch_training_kl)", "{{run}}"),),
                ),
            ),
        ),
        Row(
            "Reward and behaviour, mean of the last whole step",
            (
                Panel(
                    "Reward terms",
                    "Over all kinds of question.",
                    Unit.COUNT,
                    (Query('max by (run, term) (parallelsearch_training_reward{kind="all"})', "{{run}} {{term}}"),),
                ),
                Panel(
                    "Reward by kind",
                    "All terms together.",
                    Unit.COUNT,
                    (Query('max by (run, kind) (parallelsearch_training_reward{term="total"})', "{{run}} {{kind}}"),),
                ),
                Panel(
                    "Exact match",
                    "By kind of question.",
                    Unit.RATIO,
                    (Query("max by (run, kind) (parallelsearch_training_exact_match)", "{{run}} {{kind}}"),),
                ),
                Panel(
                    "Decomposition ratio",
                    "First searches with several sub-queries; rising on sequential is over-parallelisation.",
                    Unit.RATIO,
                    (Query("max by (run, kind) (parallelsearch_training_decomposition_ratio)", "{{run}} {{kind}}"),),
                ),
                Panel(
                    "Searches per rollout",
                    "Falling towards none is a collapse.",
                    Unit.COUNT,
                    (Query("max by (run, kind) (parallelsearch_training_searches_per_rollout)", "{{run}} {{kind}}"),),
                ),
                Panel(
                    "Wrong although retrieved",
                    "Rising: evidence is ignored.",
                    Unit.RATIO,
                    (Query("max by (run, kind) (parallelsearch_training_wrong_with_evidence)", "{{run}} {{kind}}"),),
                ),
                Panel(
                    "Left out of the update",
                    "Rollouts that failed for reasons outside of the policy.",
                    Unit.RATIO,
                    (Query("max by (run) (parallelsearch_training_excluded_ratio)", "{{run}}"),),
                ),
            ),
        ),
    ),
)
