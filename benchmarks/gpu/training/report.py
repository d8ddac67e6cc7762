"""What the training runs learnt: tables with paired-bootstrap intervals and a plot, out of what drive.py brought home.

usage: report.py ARCHIVE.tar.gz … --before RUN=BEFORE … [--pool NAME=RUN,RUN …] [--runs RUN …] --out docs/results
           --name training_boundary --card CARD --date DATE

`--before boundary-seed42=before` says which one-step run measured the policy that a run started from; `--pool` puts runs that
differ in their seed together, question by question; `--runs` leaves the others out; `--keep` takes over the runs that an earlier
NAME.json tells of, beside which one made again is NAME-again. Writes NAME.json, NAME.md, NAME.png and, for `--grid`, NAME_grid.png.
Evaluation is of the same questions before and after, at the temperature that the runs name; of several samples of a question the
mean counts.
"""

import argparse
import json
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from plots import CURVES, plot_curves, plot_grid

from parallelsearch.evaluation.statistics import paired_bootstrap
from trainer.records import RolloutRecord
from trainer.step_metrics import steps_of

SEED = 1
FACTS = {
    "exact match": lambda record: record.matched,
    "decomposed": lambda record: record.decomposed,
    "LLM calls": lambda record: record.turns,
    "searches": lambda record: record.searches,
    "repeated searches": lambda record: record.repeated_searches,
    "well formed": lambda record: record.well_formed,
    "reward": lambda record: record.reward,
}
FEWEST_CALLS = 2


@dataclass(frozen=True)
class Run:
    """What is known of a run: its specification and state, its rollouts, and OpenRLHF's own metrics by step."""

    name: str
    run: dict
    records: list
    own: list

    @property
    def spec(self):
        return self.run["spec"]

    @property
    def steps(self):
        return steps_of(self.records, self.spec["prompts_per_step"] * self.spec["samples_per_prompt"])

    @property
    def evaluated(self):
        """The samples of the last evaluation, by question."""
        rows, samples = defaultdict(list), self.spec["evaluation"]["samples"]
        for record in self.records:
            if record.split == "eval":
                rows[record.id].append(record)
        return {id_: records[-samples:] for id_, records in rows.items()}

    def seconds(self, name):
        values = [step["values"][f"timing/{name}"] for step in self.own if f"timing/{name}" in step["values"]]
        return fmean(values) if values else None

    @property
    def search_share(self):
        """Of the time of a step: the longest that any rollout of it waited for searches, at most."""
        train = sorted((record for record in self.records if record.split == "train"), key=lambda record: record.time)
        size = self.spec["prompts_per_step"] * self.spec["samples_per_prompt"]
        waits = [max(record.search_ms for record in train[at : at + size]) / 1000 for at in range(0, len(train) - size + 1, size)]
        total = self.seconds("step_total")
        return fmean(waits) / total if waits and total else None


def read(archive):
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    for name in sorted({path.partition("/")[0] for path in files}):
        run = json.loads(files[f"{name}/run.json"])
        if run["spec"]["kind"] == "reinforcement":
            lines = (line for path, text in files.items() if path.startswith(f"{name}/facts-") for line in text.splitlines())
            records = sorted(map(RolloutRecord.model_validate_json, lines), key=lambda record: record.time)
            yield Run(name, run, records, json.loads(files[f"{name}/metrics.json"])["steps"])


def scopes(evaluated):
    """Which questions are told apart: by kind, by kind within each set, and all."""
    found = {"all": list(evaluated)}
    for id_, (first, *_) in evaluated.items():
        for scope in (str(first.kind), f"{first.kind}, {id_.partition('_')[0]}"):
            found.setdefault(scope, []).append(id_)
    return found


def compare(before, after, fact, ids):
    """After − before over these questions, with its 95 % interval."""
    ids = [id_ for id_ in ids if id_ in after]
    a, b = (np.array([[fmean(float(FACTS[fact](record)) for record in side[id_]) for id_ in ids]]) for side in (after, before))
    ones = np.ones_like(a)
    found = paired_bootstrap((a, ones), (b, ones), seed=SEED)[0] if ids else None
    if found is None:
        return None
    return {
        "n": len(ids),
        "before": round(found.b, 4),
        "after": round(found.a, 4),
        "difference": round(found.difference, 4),
        "interval": [round(found.interval.low, 4), round(found.interval.high, 4)],
    }


def describe(run, before):
    spec, weights = run.spec, run.spec["reward"]["weights"]
    steps = run.steps
    told = {
        "state": run.run["state"],
        "flags": run.run["flags"],
        "algorithm": spec["algorithm"],
        "seed": spec["seed"],
        "lambda_d": weights["decomposition"],
        "lambda_s": weights["search_count"],
        "learning_rate": spec["learning_rate"],
        "evaluation_temperature": spec["evaluation"]["temperature"],
        "steps": len(steps),
        "rollouts_per_step": spec["prompts_per_step"] * spec["samples_per_prompt"],
        "seconds_per_step": {
            name: run.seconds(name) for name in ("step_total", "generation", "make_experience", "ppo_train", "broadcast")
        },
        "search_share_of_a_step": run.search_share,
        "curves": {name: [round(step.values[name], 4) if name in step.values else None for step in steps] for name in CURVES},
    }
    if before is not None and run.evaluated:
        told |= evaluation(before.evaluated, run.evaluated) | {"short": short_of(run, before)}
    return told


def evaluation(before, after):
    facts = {scope: {fact: compare(before, after, fact, ids) for fact in FACTS} for scope, ids in scopes(before).items()}
    told, calls = {"evaluation": facts}, facts["parallel"]["LLM calls"] if "parallel" in facts else None
    if calls and calls["before"] > FEWEST_CALLS:
        way = (calls["before"] - calls["after"]) / (calls["before"] - FEWEST_CALLS)
        told["share_of_the_way_to_two_calls"] = round(way, 4)
    return told


def pool(runs, before):
    """Runs of several seeds as one: each question's samples together."""
    together = defaultdict(list)
    for run in runs:
        for id_, records in run.evaluated.items():
            together[id_] += records
    whole = {"pooled": [run.name for run in runs], **evaluation(before.evaluated, together)}
    return {
        **{name: describe(runs[0], None)[name] for name in ("lambda_d", "lambda_s", "steps", "evaluation_temperature")},
        **whole,
    }


def table(told):
    lines = [
        "| run | λd | λs | steps | questions | exact match | decomposed | LLM calls | searches | repeated |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, run in told.items():
        for scope in sorted(run.get("evaluation", ())):
            facts = run["evaluation"][scope]
            cells = [
                cell(facts[fact], fact) for fact in ("exact match", "decomposed", "LLM calls", "searches", "repeated searches")
            ]
            n = facts["exact match"]["n"] if facts["exact match"] else 0
            lines.append(
                f"| {name} | {run['lambda_d']:g} | {run['lambda_s']:g} | {run['steps']} | {n} {scope} | " + " | ".join(cells) + " |"
            )
    return lines


def cell(fact, name):
    if fact is None:
        return "–"
    scale, unit, digits = (100, " %", 1) if name in {"exact match", "decomposed"} else (1, "", 2)
    low, high = (bound * scale for bound in fact["interval"])
    return f"{fact['before'] * scale:.{digits}f} → {fact['after'] * scale:.{digits}f}{unit} [{low:+.{digits}f}, {high:+.{digits}f}]"


def short_of(run, before):
    """A sentence about an evaluation that the end of the time cut short. It goes through its file in order."""
    asked, all_ = len(run.evaluated), len(before.evaluated)
    return f"Of {run.name}, only the first {asked} of {all_} questions were asked." if asked < all_ else None


def temperatures(told):
    values = sorted({run["evaluation_temperature"] for run in told.values()})
    return ", ".join(f"temperature {value:g}" if value else "greedy" for value in values)


def speed(told):
    lines = [
        "| run | s a step | generation | experience | update | weights to vLLM | rollouts/s | search, of a step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, run in told.items():
        seconds = run.get("seconds_per_step", {"step_total": None})
        if seconds["step_total"]:
            parts = [f"{seconds[part]:.2f}" for part in ("step_total", "generation", "make_experience", "ppo_train", "broadcast")]
            rate = run["rollouts_per_step"] / seconds["step_total"]
            lines.append(f"| {name} | " + " | ".join(parts) + f" | {rate:.1f} | ≤ {run['search_share_of_a_step']:.1%} |")
    return lines


def grid(told):
    """The points of plot_grid; the intervals of the report are of differences, so these have none."""
    points = {kind: [] for kind in ("parallel", "sequential")}
    for run in told.values():
        for kind, found in points.items():
            share = run["evaluation"][kind]["decomposed"]["after"]
            found.append((run["lambda_d"], run["lambda_s"], share, share, share))
    return points


def unused(name, kept):
    return unused(f"{name}-again", kept) if name in kept else name


def report_parser():
    """The arguments of every report about runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--runs", nargs="*", help="these only, in this order")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--card", required=True)
    parser.add_argument("--date", required=True)
    return parser


def main():
    parser = report_parser()
    parser.add_argument("--before", nargs="*", default=[])
    parser.add_argument("--pool", nargs="*", default=[])
    parser.add_argument("--grid", action="store_true", help="plots what was decomposed over the weights, too")
    parser.add_argument("--keep", type=Path, help="the JSON file of an earlier visit")
    given = parser.parse_args()
    runs = {run.name: run for archive in given.archives for run in read(archive)}
    before = dict(pair.split("=") for pair in given.before)
    wanted = [name for name in given.runs or runs if name not in before.values()]
    told = {name: describe(runs[name], runs.get(before.get(name))) for name in wanted}
    for name, _, members in (pair.partition("=") for pair in given.pool):
        pooled = [runs[member] for member in members.split(",")]
        told[name] = pool(pooled, runs[before[pooled[0].name]])
    if given.keep:
        kept = json.loads(given.keep.read_text())["runs"]
        told = dict(sorted((kept | {unused(name, kept): run for name, run in told.items()}).items()))
    whole = {"card": given.card, "date": given.date, "runs": told}
    (given.out / f"{given.name}.json").write_text(json.dumps(whole, indent=1) + "\n")
    plot_curves(told, given.out / f"{given.name}.png")
    if given.grid:
        plot_grid(grid(told), given.out / f"{given.name}_grid.png", "Share of held-out questions decomposed after training")
    lines = [
        f"{given.card}, {given.date}. Held-out questions, {temperatures(told)}: before → after [95 % interval of the difference].",
        *filter(None, (run.get("short") for run in told.values())),
        "",
        *table(told),
        "",
        *speed(told),
        "",
        *([f"![Decomposed questions over the weights]({given.name}_grid.png)", ""] if given.grid else []),
        f"![Curves of the training rollouts]({given.name}.png)",
        "",
    ]
    (given.out / f"{given.name}.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
