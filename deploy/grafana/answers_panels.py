"""The dashboard Answers: the latency monitor: how long answers take, where the time goes, and how they are found."""

from __future__ import annotations

from panels import Dashboard, Panel, Query, Row, Unit, mean, quantiles, rate, seconds

ANSWERS = Dashboard(
    "parallelsearch-answers",
    "Answers",
    (
        Row(
            "Latency",
            (
                seconds("Seconds of an answer", "parallelsearch_answer_seconds", "From question to answer, by mode.", "mode"),
                Panel(
                    "Where an answer's time goes",
                    "Seconds of policy, search and the gateway itself for an answer, on average.",
                    Unit.SECONDS,
                    (
                        Query(
                            f"{rate('parallelsearch_turn_policy_seconds_sum')} / {rate('parallelsearch_answer_seconds_count')}",
                            "policy",
                        ),
                        Query(
                            f"{rate('parallelsearch_turn_search_seconds_sum')} / {rate('parallelsearch_answer_seconds_count')}",
                            "search",
                        ),
                        Query(
                            f"{rate('parallelsearch_answer_overhead_seconds_sum')} / {rate('parallelsearch_answer_seconds_count')}",
                            "gateway",
                        ),
                    ),
                    stacked=True,
                ),
                seconds(
                    "Seconds of a turn's generation", "parallelsearch_turn_policy_seconds", "Waiting for the policy, per turn."
                ),
                seconds("Seconds of a turn's search", "parallelsearch_turn_search_seconds", "One batch of sub-queries, per turn."),
                seconds("The gateway's own seconds", "parallelsearch_answer_overhead_seconds", "Neither policy nor search."),
                Panel(
                    "Answers over the objective",
                    "Share of answers that take longer than 20 s; the objective allows 5 %.",
                    Unit.RATIO,
                    tuple(Query(f"parallelsearch:answers_slow:ratio_rate{window}", window) for window in ("5m", "30m", "1h", "6h")),
                ),
            ),
        ),
        Row(
            "How questions are answered",
            (
                Panel(
                    "Answers by stop reason",
                    "How rollouts end.",
                    Unit.PER_SECOND,
                    (Query(rate("parallelsearch_answers_total", "stop_reason"), "{{stop_reason}}"),),
                    stacked=True,
                ),
                Panel(
                    "LLM calls per answer",
                    "Generations; a parallel policy needs fewer.",
                    Unit.COUNT,
                    (mean("parallelsearch_llm_calls_per_answer", "{{mode}}", "mode"),),
                ),
                Panel(
                    "Parallel width",
                    "Sub-queries of a search round.",
                    Unit.COUNT,
                    (
                        mean("parallelsearch_sub_queries_per_round", "mean"),
                        *quantiles("parallelsearch_sub_queries_per_round")[1:2],
                    ),
                ),
                Panel(
                    "Turns by action",
                    "decomposed: a search with several sub-queries.",
                    Unit.PER_SECOND,
                    (Query(rate("parallelsearch_turns_total", "action"), "{{action}}"),),
                    stacked=True,
                ),
                Panel(
                    "Ratios",
                    "Of searches those that are decomposed, of turns those that are malformed, of answers those that failed.",
                    Unit.RATIO,
                    (
                        Query("parallelsearch:searches_decomposed:ratio_rate5m", "decomposed"),
                        Query("parallelsearch:turns_malformed:ratio_rate5m", "malformed"),
                        Query("parallelsearch:answers_failed:ratio_rate5m", "failed"),
                    ),
                ),
            ),
        ),
        Row(
            "Cache, load and callers",
            (
                Panel(
                    "Sub-queries by what the cache did",
                    "shared: another request was already searching for it.",
                    Unit.PER_SECOND,
                    (Query(rate("parallelsearch_cache_total", "outcome"), "{{outcome}}"),),
                    stacked=True,
                ),
                Panel(
                    "Cache",
                    "Share of hits, and whether every gateway reaches Redis.",
                    Unit.RATIO,
                    (Query("parallelsearch:cache_hits:ratio_rate5m", "hits"), Query("min(parallelsearch_cache_up)", "up")),
                ),
                Panel(
                    "In flight",
                    "Answers, and searches without a policy, that are being worked on.",
                    Unit.COUNT,
                    (
                        Query("sum by (instance) (parallelsearch_answers_in_flight)", "answers {{instance}}"),
                        Query("sum by (instance) (parallelsearch_searches_in_flight)", "searches {{instance}}"),
                    ),
                ),
                Panel(
                    "Errors",
                    "Share of requests answered with a 5xx, by service.",
                    Unit.RATIO,
                    (Query("job:parallelsearch_http_errors:ratio_rate5m", "{{job}}"),),
                ),
                Panel(
                    "Requests by key",
                    "Of the public API.",
                    Unit.REQUESTS_PER_SECOND,
                    (Query(rate("parallelsearch_calls_total", "key"), "{{key}}"),),
                ),
                Panel(
                    "Circuit breakers",
                    "1 while an upstream is left alone after failures in a row.",
                    Unit.COUNT,
                    (Query("max by (upstream) (parallelsearch_circuit_open)", "{{upstream}}"),),
                ),
            ),
        ),
    ),
)
