#!/usr/bin/env bash
# After the runs: keeps what each policy learnt as an adapter of the base, and measures the policies, greedily, on held-out questions.
# usage: finish.sh OUT [RUN …]     source env.sh first. OUT gets RUN.tar (an adapter), kept.json and evaluation.jsonl.gz
set -euo pipefail
out=$1; shift; here=$(cd "$(dirname "$0")" && pwd); cd "$here"
policies=()
for run in "$@"; do
  id=$(python3 -c "from drive import known_runs; print(known_runs()['$run']['id'])")
  printf '{"run": "%s"}\n' "$run" >> "$out/kept.json"
  python3 keep_adapter.py "$TRAIN/models/base" "$TRAIN/runs/$id/model" "/tmp/kept/$run" --merged "$TRAIN/models/$run-kept" | tee -a "$out/kept.json"
  tar cf "$out/$run.tar" -C /tmp/kept "$run"
  mode=""; case $run in *sequential*) mode=":sequential" ;; esac
  policies+=("$run=run:$run$mode" "$run-kept=$run-kept$mode")
done
python3 evaluate.py bundled=bundled "${policies[@]}" --limit "${LIMIT:-100}" --out "$out/evaluation.jsonl.gz"
