#!/usr/bin/env bash
# Packs the wheels that gateway and retriever need on an offline GPU host with Python 3.12 and torch. Writes DIR/platform.part00 …
# usage: pack_platform.sh OUT_DIR
set -euo pipefail
out=$1; root=$(cd "$(dirname "$0")/../.." && pwd); python=$root/.venv/bin/python
mkdir -p "$out"; work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
platforms=(); for n in 28 27 24 17 12 5; do platforms+=(--platform "manylinux_2_${n}_x86_64"); done
{ grep -E '^[a-z0-9].*==' "$root/requirements/light.txt"; grep -E '^(faiss-cpu|bm25s|aiohttp|pyarrow)==' "$root/requirements/engine-cpu.txt"; } \
  | grep -vE "win32|'never'|python_full_version < '3.11.3'|emscripten'$" | sed 's/ [;\\].*//; s/ *\\$//' | grep -v '^protobuf==7.36.1' | sort -u > "$work/list.txt"
while read -r pin; do
  "$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 \
    --abi none "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --platform any -d "$work/wheels" "$pin" \
    || echo "not packed: $pin" >&2
done < "$work/list.txt"
rm -f "$out"/platform.part*
tar c -C "$work" wheels | split -b 45000000 -d - "$out/platform.part"
ls -l "$out"/platform.part*
