#!/usr/bin/env bash
# Evaluates the bundled policy (or its twin) on a GPU host without network: serves it with vLLM, encodes the corpora on the GPU,
# runs every recipe of benchmarks/experiments within a budget, and leaves the runs in OUT_DIR as parts of at most 15 MB. The reports
# are made from them where time costs nothing: report_evaluation.sh.
#
# usage: evaluate_bundled.sh PARTS_DIR OUT_DIR [policy|twin]     from the root of the repository
# PARTS_DIR holds what pack_evaluation.sh wrote. vLLM is found under SITE (/tmp/site). BUDGET_S (480) is counted from the start.
set -euo pipefail
parts=$1 out=$2 which=${3:-policy}
begun=$SECONDS budget=${BUDGET_S:-480} port=${PORT:-18602} site=${SITE:-/tmp/site}
here=${WORK:-/tmp/evaluation}
results=$here/results-$which
mkdir -p "$here" "$out" "$results"
say() { echo "[evaluate $((SECONDS - begun)) s] $*" >&2; }

if [ ! -d "$here/policy" ]; then
  cat "$parts"/evaluation.part* | tar x -C "$here"
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$here/site" "$here"/wheels/*.whl
  say "unpacked"
fi

export VLLM_USE_FLASHINFER_SAMPLER=0 TORCH_CUDA_ARCH_LIST=9.0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
# setsid: the server and its engine end together, as a process group.
PYTHONPATH=$site setsid python3 -m vllm.entrypoints.openai.api_server --model "$here/$which" --served-model-name "smollm2-135m-$which" \
  --host 127.0.0.1 --port "$port" --max-model-len 4096 --max-num-seqs 256 --gpu-memory-utilization "${GPU_MEMORY:-0.5}" \
  ${VLLM_ARGUMENTS:-} >"$results/vllm.log" 2>&1 &
server=$!
end_server() { kill -- -$server 2>/dev/null || true; sleep 3; kill -9 -- -$server 2>/dev/null || true; }
trap end_server EXIT
trap 'exit 143' INT TERM

machine=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 || true)
commit=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo "${PARALLELSEARCH_COMMIT:-unknown}")
only=()
[ -z "${ONLY:-}" ] || read -ra only <<<"--only $ONLY"
PYTHONPATH=$here/site:packages/parallelsearch/src:services/retriever/src:packages/servicekit/src \
  python3 benchmarks/experiments --data "$here/data" --encoder "$here/encoder" --policy "http://127.0.0.1:$port" --out "$results" \
  --budget-s "$((budget - (SECONDS - begun)))" --machine "${machine:-unknown}" --commit "$commit" --label "$which" \
  --limit "${LIMIT:-150}" --concurrency "${CONCURRENCY:-192}" --reports none "${only[@]}" ${EXPERIMENT_ARGUMENTS:-} || { say "failed"; tail -40 "$results/vllm.log" >&2; }

say "packing"
tail -c 200000 "$results/vllm.log" | gzip >"$out/vllm-$which.log.gz"
tar cf - -C "$results" --exclude vllm.log . | xz -T0 -4 | split -b 15000000 -d - "$out/runs-$which.tar.xz.part"
ls -l "$out" >&2
say "done"
