#!/usr/bin/env bash
# On the offline GPU host, once all parts (rl.part*, rl.install.sh, train.part*) lie in one folder: installs everything, builds the
# models, in half a minute. A folder starts/NAME beside this file is an adapter that an earlier visit learnt, and stands for the run
# NAME; so does, for the start of the boundary, a whole model in start.part* (`tar cz -C MODEL . | split -b 44000000 -d - start.part`).
# Where rl.install.sh has run before, it is not run again.
# usage: install.sh UPLOADS
set -euo pipefail
up=$(cd "$1" && pwd); here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
mkdir -p "$TRAIN" /tmp/platform
cat "$up"/train.part* | tar xz -C "$TRAIN"
if compgen -G "$up/start.part*" > /dev/null; then mkdir -p "$TRAIN/models/cold-mixed"; cat "$up"/start.part* | tar xz -C "$TRAIN/models/cold-mixed"; fi
{ [ -e /tmp/site/flash_attn_2_cuda.py ] || bash "$up/rl.install.sh" "$up"; } > "$TRAIN/rl.log" 2>&1 & rl=$!
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/platform "$TRAIN"/wheels/*.whl
mkdir -p /tmp/platform/parallelsearch-0.1.0.dist-info
printf 'Metadata-Version: 2.1\nName: parallelsearch\nVersion: 0.1.0\n' > /tmp/platform/parallelsearch-0.1.0.dist-info/METADATA
wait $rl || { tail -20 "$TRAIN/rl.log"; exit 1; }
adapters=("bundled=$ROOT/services/policy/src/policy/bundled/smollm2-135m-parallelsearch")
for start in "$here"/starts/*/; do [ ! -d "$start" ] || adapters+=("$(basename "$start")=$start"); done
python3 "$here/base_model.py" "$TRAIN" "${adapters[@]}"
ls -l "$TRAIN" "$TRAIN/data"
touch "$TRAIN/installed"
