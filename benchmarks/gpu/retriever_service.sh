#!/usr/bin/env bash
# The retriever service on one card of an offline GPU host: encoder of E5-base's shape in half precision and exact search, both on the
# GPU. Prints the GPU memory it takes, the encoder's rate, queries a second at 1 to 512 clients with the split of the time, and, with
# several cards, the search spread over all of them. Under three minutes. Needs training/env.sh (PYTHONPATH, $TRAIN/minilm's tokenizer).
# usage: retriever_service.sh OUT_DIR       from the root of the repository
#        ROWS (2000000), SEARCH (fused), ENCODER_DEVICE (cuda), TOKENIZER, WORK, PORT, SECONDS_EACH (3), LAYERS, WIDTH change it
set -euo pipefail
out=$1; mkdir -p "$out"; out=$(cd "$out" && pwd); here=$(cd "$(dirname "$0")" && pwd)
[ -n "${TRAIN:-}" ] || [ -n "${TOKENIZER:-}" ] || . "$here/training/env.sh"
unset TOKENIZERS_PARALLELISM # training wants it off
rows=${ROWS:-2000000} search=${SEARCH:-fused} device=${ENCODER_DEVICE:-cuda} port=${PORT:-8001} each=${SECONDS_EACH:-3}
work=${WORK:-$( [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 20000000 ] && echo /dev/shm/made || echo /tmp/made)}
python=${PYTHON:-python3} tokenizer=${TOKENIZER:-$TRAIN/minilm}
say() { echo "[retriever $SECONDS s] $*"; }
memory() { { nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv,noheader 2> /dev/null || echo "none"; } | sed "s/^/  $1: card /"; }
say "$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | sort | uniq -c | xargs || true) $(nproc) cores"
memory "before"
"$python" "$here/made_index.py" "$work" --tokenizer "$tokenizer" --rows "$rows" --layers "${LAYERS:-12}" --width "${WIDTH:-768}"
say "made $rows passages, $(du -sh "$work" | cut -f1)"
# Suspects of GPU memory that nobody asked for: a library that takes most of a card when it is imported.
"$python" - <<'P'
import importlib.util
print("  JAX is", "installed: bm25s would let it take 3/4 of a card" if importlib.util.find_spec("jax") else "not installed")
P
say "encoder alone, $device"
CUDA_VISIBLE_DEVICES=${FIRST_CARD:-0} timeout 60 "$python" "$here/query_encoder.py" "$work/encoder" --device "$device" --out "$out/query_encoder.json"
CUDA_VISIBLE_DEVICES=${FIRST_CARD:-0} RETRIEVER_INDEX=$work/index RETRIEVER_ENCODER=$work/encoder RETRIEVER_PORT=$port \
  RETRIEVER_SEARCH=$search RETRIEVER_ENCODER_DEVICE=$device RETRIEVER_MAX_BATCH=${MAX_BATCH:-256} RETRIEVER_LOG_LEVEL=WARNING \
  "$python" -m retriever > "$out/retriever.log" 2>&1 & service=$!
trap 'kill $service 2> /dev/null || true' EXIT
for _ in $(seq 900); do
  curl -sf -m 2 "http://127.0.0.1:$port/readyz" > /dev/null && break
  kill -0 "$service" 2> /dev/null || { tail -20 "$out/retriever.log"; exit 1; }
  sleep 0.1
done
say "the service is ready"
memory "after start"
nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader 2> /dev/null | sed 's/^/  process /' || true
timeout 90 "$python" "$here/retriever_clients.py" --port "$port" --seconds "$each" --out "$out/retriever_clients.json"
memory "after load"
say "memory of the process on the host: $(grep -E 'VmRSS|VmHWM' /proc/$service/status | xargs)"
kill "$service"; wait "$service" || true
cards=$({ nvidia-smi --list-gpus 2> /dev/null || true; } | wc -l)
if [ "$cards" -gt 1 ]; then
  say "the search spread over $cards cards"
  timeout 60 "$python" "$here/several_cards.py" "$work"/index/*/vectors.npy --engine "$search"
  if "$python" -c "import pytest" 2> /dev/null; then timeout 45 "$python" -m pytest -q -m gpu tests/gpu -k "shards" -p no:cacheprovider 2>&1 | tail -5; fi
fi
[ -n "${KEEP:-}" ] || rm -rf "$work"
say "done"
