#!/usr/bin/env bash
# A policy that learnt from parallel trajectories against its twin that learnt from sequential ones (benchmarks/gpu/training, plan
# `twins`): each is served here by a platform of its own and asked in its own mode, held-out questions through the gateway.
#
# usage: RETRIEVER_INDEX=FOLDER [RETRIEVER_ENCODER=FOLDER] benchmarks/twins.sh DATA OUT [up] [ask] [alone] [report] [down]
# from the root of the repository. DATA holds SET.jsonl; all steps if none is named. `ask` and `alone` go on where they were stopped.
# PARALLEL and SEQUENTIAL are adapters of the bundled policy's base (those in benchmarks/twins). LIMIT: questions of each type other than
# comparisons (100); ROUNDS: of two comparisons, one rollout at a time (6). PORT (21100) and the 13 after it are listened on.
set -euo pipefail
declare -A adapter=([parallel]=${PARALLEL:-benchmarks/twins/parallel} [sequential]=${SEQUENTIAL:-benchmarks/twins/sequential})
data=$1; mkdir -p "$2"; out=$(cd "$2" && pwd); shift 2
steps=("${@:-all}"); port=${PORT:-21100}; max_turns=6 limit=${LIMIT:-100}
files=("$data/hotpotqa.jsonl" "$data/2wikimultihopqa.jsonl")
bin=.venv/bin

wants() { [[ " ${steps[*]} " == *" $1 "* || ${steps[0]} == all ]]; }
# One twin's platform: its settings, then a command.
within() {
  local first=$port; [ "$1" = parallel ] || first=$((port + 10))
  PARALLELSEARCH_STATE_DIR=$out/state-$1 GATEWAY_PORT=$first RETRIEVER_PORT=$((first + 1)) POLICY_PORT=$((first + 2)) \
    TRAINER_PORT=$((first + 3)) POLICY_CHECKPOINT=$out/cold-$1 POLICY_TURN_TOKENS=200 POLICY_MAX_MODEL_LEN=4096 "${@:2}"
}
evaluate() { # MODE RUN ARGUMENT …
  within "$1" "$bin/parallelsearch" eval "${@:3}" --split eval --answerable --mode "$1" --max-turns "$max_turns" --deadline 300 \
    --corpus "the passages of hotpotqa and 2wikimultihopqa" --out "$out/$2/$1"
}

if wants up; then
  for mode in parallel sequential; do
    [ -f "$out/cold-$mode/config.json" ] || "$bin/python" -m policy merge SmolLM2-135M-Instruct "${adapter[$mode]}" "$out/cold-$mode"
    within "$mode" "$bin/parallelsearch" up
  done
fi
if wants ask; then # all comparisons, of the other types a sample
  mkdir -p "$out/questions"
  for type in bridge_comparison compositional bridge; do cat "${files[@]}" | grep -F "\"type\": \"$type\"" >"$out/questions/$type.jsonl"; done
  for mode in parallel sequential; do evaluate "$mode" comparisons "${files[@]}" --subset parallel --concurrency 16; done
  for mode in parallel sequential; do evaluate "$mode" others "$out"/questions/*.jsonl --limit "$limit" --concurrency 16; done
fi
if wants alone; then # a question of each set in turns, so that what else the machine does meets both
  for round in $(seq "${ROUNDS:-6}"); do
    for mode in parallel sequential; do
      evaluate "$mode" "alone-$round" "${files[@]}" --subset parallel --limit 1 --seed "$round" --concurrency 1
    done
  done
fi
if wants report; then
  for run in comparisons others; do "$bin/parallelsearch" eval compare "$out/$run/parallel" "$out/$run/sequential" --out "$out/$run"; done
  "$bin/python" benchmarks/twins.py "$out"/{comparisons,others} --alone "$out"/alone-* --out docs/results --machine "${MACHINE:-}" --note "${NOTE:-}"
fi
if wants down; then
  for mode in sequential parallel; do within "$mode" "$bin/parallelsearch" down; done
fi
