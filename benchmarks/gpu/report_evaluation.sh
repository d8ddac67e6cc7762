#!/usr/bin/env bash
# Unpacks what evaluate_bundled.sh brought back and makes the reports of every run: report.{md,json,html} in each folder, and
# summary.md over all.
#
# usage: report_evaluation.sh OUT_DIR RUNS_DIR [policy|twin]     from the root of the repository
set -euo pipefail
out=$1 runs=$2/${3:-policy}
mkdir -p "$runs"
cat "$out/runs-${3:-policy}".tar.xz.part* | tar xJ -C "$runs"
.venv/bin/python benchmarks/experiments --out "$runs" --reports only
