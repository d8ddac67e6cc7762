"""The dashboard Policy: weights, engine and canary."""

from __future__ import annotations

from panels import Dashboard, Panel, Query, Row, Unit, rate, seconds

POLICY = Dashboard(
    "parallelsearch-policy",
    "Policy",
    (
        Row(
            "Weights",
            (
                Panel(
                    "Version",
                    "Of the weights that are served; replicas should agree.",
                    Unit.COUNT,
                    (Query("max by (instance, model) (parallelsearch_policy_version)", "{{model}} {{instance}}"),),
                ),
                Panel(
                    "Replicas by version",
                    "That take rollouts, as a gateway sees them; two versions at once are a roll-out under way.",
                    Unit.COUNT,
                    (Query("sum by (version) (max by (replica, version) (parallelsearch_policy_replica))", "version {{version}}"),),
                ),
                Panel(
                    "Requests moved",
                    "That went on to another replica after a failure, in an hour.",
                    Unit.COUNT,
                    (Query("sum(increase(parallelsearch_policy_moves_total[1h]))", "moved"),),
                ),
                Panel(
                    "Changes of weights",
                    "By outcome, in an hour.",
                    Unit.COUNT,
                    (Query("sum by (outcome) (increase(parallelsearch_policy_weight_changes_total[1h]))", "{{outcome}}"),),
                ),
                Panel(
                    "Seconds without generation while weights change",
                    "On average, in an hour.",
                    Unit.SECONDS,
                    (
                        Query(
                            "sum(increase(parallelsearch_policy_weight_pause_seconds_sum[1h]))"
                            " / sum(increase(parallelsearch_policy_weight_pause_seconds_count[1h]))",
                            "pause",
                        ),
                    ),
                ),
                Panel(
                    "Stalled",
                    "1 while the engine makes no progress.",
                    Unit.COUNT,
                    (Query("max by (instance) (parallelsearch_policy_stalled)", "{{instance}}"),),
                ),
            ),
        ),
        Row(
            "Engine",
            (
                Panel(
                    "Generations",
                    "Running and waiting.",
                    Unit.COUNT,
                    (
                        Query("sum(vllm:num_requests_running)", "running"),
                        Query("sum(vllm:num_requests_waiting)", "waiting"),
                    ),
                ),
                Panel(
                    "Tokens",
                    "Read and written in a second.",
                    Unit.PER_SECOND,
                    (
                        Query(rate("vllm:prompt_tokens_total"), "read"),
                        Query(rate("vllm:generation_tokens_total"), "written"),
                    ),
                ),
                seconds("Seconds to the first token", "vllm:time_to_first_token_seconds", "Queue and prefill."),
                seconds("Seconds between tokens", "vllm:inter_token_latency_seconds", "While generating."),
                seconds("Seconds in the engine's queue", "vllm:request_queue_time_seconds", "Before a generation is scheduled."),
                Panel(
                    "KV cache",
                    "Share in use, and share of prompt tokens found in the prefix cache.",
                    Unit.RATIO,
                    (
                        Query("max by (instance) (vllm:kv_cache_usage_perc)", "in use {{instance}}"),
                        Query(f"{rate('vllm:prefix_cache_hits_total')} / {rate('vllm:prefix_cache_queries_total')}", "prefix hits"),
                    ),
                ),
                Panel(
                    "Preemptions",
                    "Generations thrown out of the KV cache, to be computed again.",
                    Unit.PER_SECOND,
                    (Query(rate("vllm:num_preemptions_total", "instance"), "{{instance}}"),),
                ),
            ),
        ),
        Row(
            "Canary: the same questions, round after round",
            (
                Panel(
                    "Exact match",
                    "By kind of question.",
                    Unit.RATIO,
                    (Query("max by (kind) (parallelsearch_canary_exact_match)", "{{kind}}"),),
                ),
                Panel(
                    "Decomposed",
                    "Share of questions whose first search held several sub-queries; low on sequential is right.",
                    Unit.RATIO,
                    (Query("max by (kind) (parallelsearch_canary_decomposed)", "{{kind}}"),),
                ),
                Panel(
                    "Searches per question",
                    "Rounds, by kind.",
                    Unit.COUNT,
                    (Query("max by (kind) (parallelsearch_canary_searches)", "{{kind}}"),),
                ),
                Panel(
                    "Evidence",
                    "Share of questions whose evidence was found, and of those the share answered wrong.",
                    Unit.RATIO,
                    (
                        Query("max by (kind) (parallelsearch_canary_evidence_found)", "found {{kind}}"),
                        Query("max by (kind) (parallelsearch_canary_wrong_although_evidence)", "wrong although found {{kind}}"),
                    ),
                ),
                Panel(
                    "Seconds of the canary's answers",
                    "Over the last full round.",
                    Unit.SECONDS,
                    (Query("max by (quantile) (parallelsearch_canary_seconds)", "{{quantile}}"),),
                ),
                Panel(
                    "Age of the last round",
                    "Seconds since it was done.",
                    Unit.SECONDS,
                    (Query("time() - max(parallelsearch_canary_last_round_timestamp_seconds)", "age"),),
                ),
            ),
        ),
    ),
)
