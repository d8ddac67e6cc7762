"""How long the steps of the same run take on one card and on two: medians from the second step on, and the ratio to the first run.

usage: cards.py ARCHIVE.tar.gz … [--runs RUN …] --out docs/results --name training_cards --card CARD --date DATE

A first step compiles kernels, so it is left out. Writes NAME.json and NAME.md.
"""

import json
from statistics import median

from report import read, report_parser

PARTS = ("step_total", "generation", "make_experience", "ppo_train", "broadcast")


def measured(run):
    later = [step["values"] for step in run.own if step["step"] > 1 and "timing/step_total" in step["values"]]
    return {
        "gpus": run.spec["resources"]["gpus_per_node"],
        "steps": len(later),
        "rollouts_per_step": run.spec["prompts_per_step"] * run.spec["samples_per_prompt"],
        "seconds": {part: round(median(values[f"timing/{part}"] for values in later), 2) for part in PARTS},
    }


def main():
    given = report_parser().parse_args()
    runs = {run.name: run for archive in given.archives for run in read(archive)}
    told = {name: measured(runs[name]) for name in given.runs or runs}
    (given.out / f"{given.name}.json").write_text(
        json.dumps({"card": given.card, "date": given.date, "runs": told}, indent=1) + "\n"
    )
    alone = next(iter(told.values()))["seconds"]
    lines = [
        f"{given.card}, {given.date}. Seconds, medians of the steps after the first; in brackets, over the first row's.",
        "",
        "| run | cards | steps | a step | generation | experience | update | weights to vLLM | rollouts/s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, run in told.items():
        cells = [f"{run['seconds'][part]:.2f} ({run['seconds'][part] / alone[part]:.2f})" for part in PARTS]
        rate = run["rollouts_per_step"] / run["seconds"]["step_total"]
        lines.append(f"| {name} | {run['gpus']} | {run['steps']} | {' | '.join(cells)} | {rate:.1f} |")
    (given.out / f"{given.name}.md").write_text("\n".join([*lines, ""]))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
