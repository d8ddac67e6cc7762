#!/usr/bin/env bash
# On the offline GPU host, once all parts (rl.part*, rl.install.sh, train.part*) lie in one folder: installs everything, builds the
# models and the data files, in a minute and a half. The index goes on being built (index.log): drive.py waits for it where a run
# needs it.
# usage: install.sh UPLOADS
set -euo pipefail
up=$(cd "$1" && pwd); here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
mkdir -p "$TRAIN" /tmp/platform
cat "$up"/train.part* | tar x -C "$TRAIN"
bash "$up/rl.install.sh" "$up" > "$TRAIN/rl.log" 2>&1 & rl=$!
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/platform "$TRAIN"/wheels/*.whl
mkdir -p /tmp/platform/parallelsearch-0.1.0.dist-info
printf 'Metadata-Version: 2.1\nName: parallelsearch\nVersion: 0.1.0\n' > /tmp/platform/parallelsearch-0.1.0.dist-info/METADATA
python3 "$here/one_corpus.py" "$TRAIN/corpus.jsonl" "$TRAIN"/raw/{hotpotqa,2wikimultihopqa}_corpus.jsonl.gz
wait $rl || { tail -20 "$TRAIN/rl.log"; exit 1; }
setsid nohup python3 -m retriever index build "$TRAIN/corpus.jsonl" --out "$TRAIN/index" --encoder "$TRAIN/minilm" > "$TRAIN/index.log" 2>&1 &
python3 "$here/base_model.py" "$TRAIN" "$ROOT/services/policy/src/policy/bundled/smollm2-135m-parallelsearch"
bash "$here/data.sh"
ls -l "$TRAIN" "$TRAIN/data"
