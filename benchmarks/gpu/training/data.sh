#!/usr/bin/env bash
# Makes the prompt files and the cold-start files of the training benchmarks out of $TRAIN/raw into $TRAIN/data.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd); raw=$TRAIN/raw; data=$TRAIN/data; python=${PYTHON:-python3}; mkdir -p "$data"
make() { "$python" -m trainer prepare-data "$@" > /dev/null; }
corpora=(); for set in hotpotqa 2wikimultihopqa musique nq popqa triviaqa xquad; do corpora+=(--corpus "$set=$raw/${set}_corpus.jsonl.gz"); done
multihop=("$raw/hotpotqa.jsonl" "$raw/2wikimultihopqa.jsonl")
held_out=(--exclude "$raw/musique.jsonl" --exclude "$raw/nq.jsonl" --exclude "$raw/popqa.jsonl")
# The boundary: as many questions that ask for parallel search as for sequential.
make prompts "${multihop[@]}" "${held_out[@]}" --type comparison --out "$data/parallel.jsonl"
make prompts "${multihop[@]}" "${held_out[@]}" --type compositional --type bridge --limit "$(wc -l < "$data/parallel.jsonl")" --out "$data/sequential.jsonl"
cat "$data/parallel.jsonl" "$data/sequential.jsonl" > "$data/boundary.jsonl"
make prompts "${multihop[@]}" "${held_out[@]}" --type comparison --type bridge_comparison --type compositional --out "$data/improve.jsonl"
# What is measured on.
make prompts "${multihop[@]}" --split eval --type comparison --limit 200 --out "$data/parallel_eval.jsonl"
make prompts "${multihop[@]}" --split eval --type compositional --type bridge --limit 200 --out "$data/sequential_eval.jsonl"
cat "$data/parallel_eval.jsonl" "$data/sequential_eval.jsonl" > "$data/boundary_eval.jsonl"
make prompts "${multihop[@]}" --split eval --type comparison --type bridge_comparison --type compositional --out "$data/improve_eval.jsonl"
"$python" "$here/mix.py" "$raw/sft_parallel.jsonl.gz" "$raw/sft_sequential.jsonl.gz" --wrong 0.4 --limit 2300 --out "$raw/mixed.jsonl"
make cold-start "$raw/mixed.jsonl" "${corpora[@]}" --out "$data/cold_mixed.jsonl"
head -n 512 "$data/cold_mixed.jsonl" > "$data/cold_short.jsonl"
"$python" "$here/twin.py" "$raw/sft_parallel.jsonl.gz" "$raw/sft_sequential.jsonl.gz" --every 3 --out "$raw"
make cold-start "$raw/twin_parallel.jsonl" "${corpora[@]}" --out "$data/cold_parallel.jsonl"
make cold-start "$raw/twin_sequential.jsonl" "${corpora[@]}" --mode sequential --out "$data/cold_sequential.jsonl"
wc -l "$data"/*.jsonl
