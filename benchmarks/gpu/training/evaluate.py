"""Measures policies on eval questions: vLLM serves each model, our rollout loop and the retriever service do the rest.

usage: evaluate.py NAME=MODEL[:sequential] … --out FILE [--limit N]     (source env.sh; the retriever must be running, see drive.py)

MODEL is a folder, or `run:NAME`. All servers share the visible GPUs, one after the other in order. One JSON line for each policy
and question; greedy, at most 4 calls (sequential: 6), the policy gives its last answer itself.
"""

import argparse
import asyncio
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import torch
from drive import RETRIEVER, TRAIN, known_runs, serve_both

from parallelsearch.clients.policy import PolicyHttp, TokenPolicyClient
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.errors import ParallelSearchError
from parallelsearch.reward.exact_match import f1
from parallelsearch.reward.scoring import score
from parallelsearch.rollout.runner import RolloutRequest, run_rollout
from parallelsearch.rollout.settings import RolloutSettings
from parallelsearch.rollout.types import Mode, PolicyIdentity
from trainer.data.questions import read_questions

SETS = ("hotpotqa", "2wikimultihopqa")  # whose passages are in the index
FIRST_PORT, IN_FLIGHT, READY_S = 8100, 64, 240


def questions(limit):
    rows = [q for name in SETS for q in read_questions(str(TRAIN / "raw" / f"{name}.jsonl")) if q.split == "eval" and q.answerable]
    by_type = {}
    for row in Random(1).sample(rows, len(rows)):
        by_type.setdefault((row.dataset, row.type), []).append(row)
    return [row for group in by_type.values() for row in group[:limit]]


def start_server(number, model, share, log):
    gpu = str(number % max(torch.cuda.device_count(), 1))
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", "policy"]
    command += ["--port", str(FIRST_PORT + number), "--max-model-len", "4096", "--gpu-memory-utilization", f"{share:.2f}"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
    return subprocess.Popen([*command, "--enforce-eager"], stdout=log, stderr=log, env=environment, start_new_session=True)


async def until_ready(http, process, name):
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            await http.get("v1/models")
            return
        except ParallelSearchError:
            if process.poll() is not None:
                break
            await asyncio.sleep(1)
    sys.exit(f"{name}: vLLM did not start, see {TRAIN / f'vllm-{name}.log'}")


async def measure(name, port, process, sequential, rows, write):
    http = PolicyHttp(f"http://127.0.0.1:{port}/v1", timeout_s=120)
    await until_ready(http, process, name)
    policy, search, slots = (
        TokenPolicyClient(http, "policy"),
        RetrieverClient(RETRIEVER, timeout_s=30),
        asyncio.Semaphore(IN_FLIGHT),
    )
    settings = RolloutSettings(
        mode=Mode.SEQUENTIAL if sequential else Mode.PARALLEL,
        max_turns=5 if sequential else 3,
        turn_tokens=200,
        context_tokens=4096,
        open_last_answer=False,
    )

    async def one(row):
        async with slots:
            request = RolloutRequest(row.id, row.question, settings, deadline_s=120)
            trajectory = await run_rollout(request, policy, search, identity=PolicyIdentity(name))
        reward = score(trajectory, row.kind, row.golden_answers)
        write(
            policy=name,
            id=row.id,
            dataset=row.dataset,
            type=row.type,
            kind=row.kind,
            exact_match=reward.matched,
            f1=f1(trajectory.answer, row.golden_answers),
            well_formed=reward.well_formed,
            decomposed=reward.decomposed,
            searches=reward.searches,
            repeated_searches=reward.repeated_searches,
            llm_calls=trajectory.usage.llm_calls,
            reward=reward.value,
            stop_reason=trajectory.stop_reason,
            total_ms=trajectory.timings.total_ms,
            detail=trajectory.detail,
        )

    started = time.monotonic()
    await asyncio.gather(*map(one, rows))
    print(f"{name}: {len(rows)} questions in {time.monotonic() - started:.0f} s", flush=True)
    await http.close()
    await search.close()


def folder_of(model, known):
    return TRAIN / "runs" / known[model[4:]]["id"] / "model" if model.startswith("run:") else TRAIN / "models" / model


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("policies", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=150, help="questions of each type of each set")
    given = parser.parse_args()
    serve_both()
    known, rows, cards = known_runs(), questions(given.limit), max(torch.cuda.device_count(), 1)
    share = min(0.8 / -(-len(given.policies) // cards), 0.4)
    processes, tasks = [], []
    with gzip.open(given.out, "wt") as file:

        def write(**row):
            file.write(json.dumps(row) + "\n")

        try:
            for number, policy in enumerate(given.policies):
                name, _, model = policy.partition("=")
                model, sequential = model.removesuffix(":sequential"), model.endswith(":sequential")
                with (TRAIN / f"vllm-{name}.log").open("wb") as log:
                    processes.append(start_server(number, folder_of(model, known), share, log))
                tasks.append(measure(name, FIRST_PORT + number, processes[-1], sequential, rows, write))
            await asyncio.gather(*tasks)
        finally:
            for process in processes:
                os.killpg(process.pid, 15)


if __name__ == "__main__":
    asyncio.run(main())
