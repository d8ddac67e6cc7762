# To be sourced on the GPU host: where everything lies after install.sh, and the settings of retriever and trainer.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd); export ROOT TRAIN=/tmp/train
sources=$ROOT/packages/parallelsearch/src:$ROOT/packages/servicekit/src:$ROOT/services/retriever/src:$ROOT/services/trainer/src
export PYTHONPATH=$sources:/tmp/site:/tmp/platform PYTHONUNBUFFERED=1
export VLLM_USE_FLASHINFER_SAMPLER=0 TORCH_CUDA_ARCH_LIST=9.0 WANDB_MODE=disabled TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
export RETRIEVER_INDEX=$TRAIN/index RETRIEVER_ENCODER=$TRAIN/minilm RETRIEVER_URL=http://127.0.0.1:8001
export TRAINER_RUNS_DIR=$TRAIN/runs TRAINER_MODEL_ROOTS=$TRAIN/models:$TRAIN/runs TRAINER_DATA_ROOTS=$TRAIN/data
export TRAINER_OPENRLHF_VERSION=0.10.4 TRAINER_OPENRLHF_PYTHON=python3 TRAINER_POLL_S=1 TRAINER_MAX_RUNNING=16 TRAINER_RUNS_PER_GPU=${TRAINER_RUNS_PER_GPU:-1} ADMIN_TOKEN=benchmark RAY_USAGE_STATS_ENABLED=0
