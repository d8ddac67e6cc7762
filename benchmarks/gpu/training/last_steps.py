"""What runs had learnt by the end of their training, out of the rollouts that they trained on.

usage: last_steps.py ARCHIVE.tar.gz … [--steps 10] [--runs RUN …] [--grid] --out docs/results --name training_ablation
           --card CARD --date DATE

For runs that were not evaluated on held-out questions. Of the last steps of each run only questions count that the run had not
met before, so nothing is measured on what was learnt from, though on questions of the training file; they differ between runs whose
order was not seeded. Sampled at temperature 1, eight rollouts a question; the mean over questions with its 95 % bootstrap
interval. Writes NAME.json, NAME.md and NAME.png: curves, or with --grid the share of decomposed questions over the weights.
"""

import json
from collections import defaultdict
from statistics import fmean

import numpy as np
from plots import plot_curves, plot_grid
from report import FACTS, SEED, describe, read, report_parser, speed

from parallelsearch.evaluation.statistics import ratio_intervals

SHOWN = ("exact match", "decomposed", "LLM calls", "searches", "repeated searches")
KINDS = ("parallel", "sequential")


def last_questions(run, steps):
    """The rollouts of each question that the run met in its last `steps` whole steps for the first time."""
    size = run.spec["prompts_per_step"] * run.spec["samples_per_prompt"]
    train = [record for record in run.records if record.split == "train"]
    whole = len(train) // size
    first = size * max(0, whole - steps)
    known = {record.id for record in train[:first]}
    groups = defaultdict(list)
    for record in train[first : size * whole]:
        if record.id not in known:
            groups[record.id].append(record)
    return groups, whole


def measured(groups):
    """By kind and fact: the mean over questions and its interval."""
    told = {}
    for kind in KINDS:
        of_kind = [records for records in groups.values() if records[0].kind == kind]
        values = np.array([[fmean(float(FACTS[fact](r)) for r in records) for records in of_kind] for fact in SHOWN])
        intervals = ratio_intervals(values, np.ones_like(values), seed=SEED)
        told[kind] = {
            "questions": len(of_kind),
            **{
                fact: {"mean": round(float(row.mean()), 4), "interval": [round(between.low, 4), round(between.high, 4)]}
                for fact, row, between in zip(SHOWN, values, intervals, strict=True)
            },
        }
    return told


def table(told):
    yield "| run | λd | λs | steps | questions | exact match | decomposed | LLM calls | searches | repeated |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for kind in KINDS:
        for name, run in told.items():
            facts = run["last_steps"][kind]
            cells = " | ".join(cell(facts[fact], percent=fact in {"exact match", "decomposed"}) for fact in SHOWN)
            weights = f"{run['lambda_d']:g} | {run['lambda_s']:g} | {run['steps']}"
            yield f"| {name} | {weights} | {facts['questions']} {kind} | {cells} |"


def cell(fact, *, percent):
    scale, digits = (100, 1) if percent else (1, 2)
    mean, low, high = (value * scale for value in (fact["mean"], *fact["interval"]))
    return f"{mean:.{digits}f}{' %' if percent else ''} [{low:.{digits}f}, {high:.{digits}f}]"


def grid(told):
    """The points of plot_grid."""
    points = {kind: [] for kind in KINDS}
    for run in told.values():
        for kind in KINDS:
            share = run["last_steps"][kind]["decomposed"]
            points[kind].append((run["lambda_d"], run["lambda_s"], share["mean"], *share["interval"]))
    return points


def main():
    parser = report_parser()
    parser.add_argument("--steps", type=int, default=10, help="how many of the last steps count")
    parser.add_argument("--grid", action="store_true")
    given = parser.parse_args()
    runs = {run.name: run for archive in given.archives for run in read(archive)}
    told = {}
    for name in given.runs or runs:
        groups, steps = last_questions(runs[name], given.steps)
        told[name] = {**describe(runs[name], None), "steps": steps, "last_steps": measured(groups)}
    whole = {"card": given.card, "date": given.date, "last_steps": given.steps, "runs": told}
    (given.out / f"{given.name}.json").write_text(json.dumps(whole, indent=1) + "\n")
    image = given.out / f"{given.name}.png"
    if given.grid:
        plot_grid(grid(told), image, "Share of rollouts that decompose, last steps of training; bars are 95 % intervals")
    else:
        plot_curves(told, image)
    about = (
        f"{given.card}, {given.date}. Training rollouts of the last {given.steps} steps, temperature 1, eight for each question, "
        "which the run had not met before: mean over questions [95 % interval]."
    )
    lines = [about, "", *table(told), "", *speed(told), "", f"![{given.name}]({given.name}.png)", ""]
    (given.out / f"{given.name}.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
