#!/usr/bin/env bash
# A visit to an offline GPU host whose commands have a time limit: installs and trains in a session of its own, and waits for it.
# usage: visit.sh start UPLOADS PLAN[,PLAN…][/PLAN…] MINUTES   returns at once; what follows a / waits for what precedes it. UPLOADS as
#        for install.sh, which is not called again where it is through; TRAINER_RUNS_PER_GPU as for env.sh
#        visit.sh wait SECONDS OUT      until it is over or the seconds are; OUT gets an archive of each plan as it stands, and the logs
#        visit.sh end                   ends what holds the cards: trainer, runs, retriever
# install.sh may run beside other work; a start waits for it where the file UPLOADS/installing is, until it is gone.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); . "$here/env.sh"; state=$TRAIN/visit; mkdir -p "$state"
say() { echo "[visit $(($(date +%s) - $(cat "$state/began"))) s] $*"; }

train() { # UPLOADS PLANS MINUTES
  trap 'say over; touch "$state/over"' EXIT
  for _ in $(seq 300); do [ ! -e "$1/installing" ] || sleep 1; done
  [ -e "$TRAIN/installed" ] || bash "$here/install.sh" "$1"
  say installed
  # Lets runs that share a card compute side by side; they do without it too.
  PATH=$PATH:/usr/local/nvidia/bin nvidia-cuda-mps-control -d || true
  nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv,noheader -l 10 > "$state/cards.csv" & local watching=$!
  vmstat -n -t -S M 10 > "$state/host.txt" & watching="$watching $!"
  local plans end; end=$(awk "BEGIN {print int($(date +%s) + $3 * 60)}")
  for plans in ${2//\// }; do
    python3 "$here/drive.py" "$plans" --minutes "$(awk "BEGIN {print ($end - $(date +%s)) / 60}")" --starting 16 --out "$state" || true
    say "after $plans"
  done
  kill $watching || true
}

case $1 in
  start)
    date +%s > "$state/began"; echo "${3//\//,}" > "$state/plans"
    export -f train say; export here state
    setsid bash -c 'set -euo pipefail; train "$@"' visit "${@:2}" > "$state/log.txt" 2>&1 < /dev/null &
    ;;
  wait)
    mkdir -p "$3"; until=$(($(date +%s) + $2))
    while [ ! -e "$state/over" ] && [ "$(date +%s)" -lt "$until" ]; do sleep 2; done
    grep -vE 'step [0-9]*[1-9] |step 0 ' "$state/log.txt" | tail -80 || true
    ready="http://127.0.0.1:${TRAINER_PORT:-8003}/readyz"
    [ -e "$state/over" ] || ! curl -sf -m 5 "$ready" > /dev/null || timeout 60 python3 "$here/drive.py" "$(cat "$state/plans")" --minutes 0 --out "$state" || true
    tar cz -C "$TRAIN" --exclude='*.tar.gz' visit $(cd "$TRAIN" && ls trainer.log retriever.log 2> /dev/null) > "$3/visit-logs.tar.gz"
    cp "$state"/*.tar.gz "$3/" 2> /dev/null || true
    ;;
  end)
    pkill -f "python3? -m (trainer|retriever)$" || true
    sleep 2; pkill -9 -f "openrlhf|ray::|raylet|gcs_server|EngineCore" || true
    echo quit | PATH=$PATH:/usr/local/nvidia/bin nvidia-cuda-mps-control || true
    ;;
  *) sed -n '2,8p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
