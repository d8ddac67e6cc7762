#!/usr/bin/env bash
# After the runs: keeps what each policy learnt as an adapter of the base, and measures the policies, greedily, on held-out questions.
# usage: finish.sh OUT [RUN …]     source env.sh first. OUT gets RUN.tar (an adapter), kept.jsonl and evaluation-N.jsonl.gz
# LIMIT: questions of each set and type (100); 0 measures nothing.
# A run that learnt an adapter is kept as it is; of another the low-rank difference is, and what is served of it is measured beside it.
set -euo pipefail
out=$1; shift; here=$(cd "$(dirname "$0")" && pwd); cd "$here"
policies=(bundled=bundled)
for run in "$@"; do
  id=$(python3 -c "from drive import known_runs; print(known_runs().get('$run', {}).get('id', 'none'))"); model=$TRAIN/runs/$id/model
  [ -f "$model/config.json" ] || { echo "$run has left no model; the others are kept." >&2; continue; }
  mode=""; case $run in *sequential*) mode=":sequential" ;; esac
  policies+=("$run=run:$run$mode")
  if [ -d "$model/adapter" ]; then
    mkdir -p /tmp/kept; rm -rf "/tmp/kept/$run"; cp -r "$model/adapter" "/tmp/kept/$run"
    sed -i 's#"base_model_name_or_path": "[^"]*"#"base_model_name_or_path": "SmolLM2-135M-Instruct"#' "/tmp/kept/$run/adapter_config.json"
  else
    python3 keep_adapter.py "$TRAIN/models/base" "$model" "/tmp/kept/$run" --merged "$TRAIN/models/$run-kept" >> "$out/kept.jsonl"
    policies+=("$run-kept=$run-kept$mode")
  fi
  tar cf "$out/$run.tar" -C /tmp/kept "$run"
done
[ "${LIMIT:-100}" != 0 ] || exit 0
# Two at a time: engines that start side by side on one card measure each other's memory.
for ((at = 0; at < ${#policies[@]}; at += 2)); do
  python3 evaluate.py "${policies[@]:at:2}" --limit "${LIMIT:-100}" --out "$out/evaluation-$at.jsonl.gz" 2>> "$TRAIN/evaluate.log"
done
