"""Weights changed under load with the real CPU engine: a good checkpoint, a broken one, one that cannot generate, an adapter."""

import itertools
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.policy_server import MODEL, Server, complete, prompt_ids

from policy.bundle import bundled_policy
from policy.preparation import prepared_dir
from policy.settings import CacheSettings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
TOKEN = "swap-test"
CLIENTS = 4
MAX_GAP_S = 2.0


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Path:
    """`noisy` generates something else, `nan` has the right shape and cannot generate, `short` is cut, `adapter` is our own."""
    roots, bundle = tmp_path_factory.mktemp("runs"), bundled_policy()
    base = prepared_dir(bundle, CacheSettings().models_dir)
    weights = load_file(base / "model.safetensors")
    name = "model.layers.3.mlp.down_proj.weight"
    torch.manual_seed(0)
    changed = {
        "noisy": {key: value + 0.1 * value.std() * torch.randn_like(value) for key, value in weights.items()},
        "nan": weights | {name: torch.full_like(weights[name], torch.nan)},
    }
    for folder, tensors in changed.items():
        (roots / folder).mkdir()
        shutil.copy(base / "config.json", roots / folder)
        save_file({key: value.contiguous() for key, value in tensors.items()}, roots / folder / "model.safetensors")
    shutil.copytree(roots / "noisy", roots / "short")
    with (roots / "short" / "model.safetensors").open("r+b") as file:
        file.truncate(1_000_000)
    shutil.copytree(bundle.adapter_dir, roots / "adapter")
    return roots


@pytest.fixture(scope="module")
def server(tmp_path_factory, checkpoints: Path):
    server = Server(tmp_path_factory.mktemp("policy"), ADMIN_TOKEN=TOKEN, POLICY_CHECKPOINT_ROOTS=str(checkpoints))
    server.wait_until_ready()
    yield server
    server.close()


@dataclass(frozen=True)
class Token:
    at: float
    version: int


class Load:
    """Clients that stream completions one after another; `tokens` is when each token came, `faults` what went wrong."""

    def __init__(self, server: Server, ids: list[int]) -> None:
        self.server, self.ids = server, ids
        self.tokens: list[Token] = []
        self.requests: list[Token] = []
        self.faults: list[str] = []
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._client, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _client(self, number: int) -> None:
        with httpx2.Client(base_url=self.server.url, timeout=120, trust_env=False) as http:
            while not self._done.is_set():
                number += CLIENTS
                self._stream(http, {"seed": number, "max_tokens": 20 + number % 40})

    def _stream(self, http: httpx2.Client, settings: dict) -> None:
        body = {"model": MODEL, "prompt": self.ids, "temperature": 1.0, "ignore_eos": True, "stream": True} | settings
        with http.stream("POST", "/v1/completions", json=body) as answer:
            if answer.status_code != 200:
                self.faults.append(str(answer.status_code))
                return
            version = int(answer.headers["x-policy-version"])
            self.requests.append(Token(time.monotonic(), version))
            lines = [line for line in self._timed(answer, version) if line.startswith("data:")]
        if lines[-1] != "data: [DONE]" or len(lines) != settings["max_tokens"] + 1:
            self.faults.append(f"{len(lines)} lines, the last {lines[-1]!r}")

    def _timed(self, answer: httpx2.Response, version: int):
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                self.tokens.append(Token(time.monotonic(), version))
            yield line


def change(server: Server, checkpoint: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer {TOKEN}"}
    started = time.monotonic()
    answer = server.http.post("/v1/policy/weights", json={"checkpoint": checkpoint}, headers=headers, timeout=600)
    print(f"{checkpoint}: {answer.status_code} after {time.monotonic() - started:.1f} s")  # noqa: T201
    return answer


def test_weights_change_under_load(server: Server, checkpoints: Path) -> None:
    ids = prompt_ids(server, "Who is older, Claude Monet or Camille Pissarro?")
    outputs = {1: complete(server, ids).json()["choices"][0]["text"]}

    with Load(server, ids) as load:
        time.sleep(3)
        answers = [change(server, name) for name in ("noisy", "short", "nan", "adapter", str(checkpoints / "noisy"))]
        time.sleep(3)

    assert [answer.status_code for answer in answers] == [200, 422, 503, 200, 200], [answer.text for answer in answers]
    assert [answer.json()["version"] for answer in answers if answer.status_code == 200] == ["2", "3", "4"]
    assert load.faults == []
    started = sorted(load.requests, key=lambda request: request.at)
    versions = [request.version for request in started]
    assert versions == sorted(versions) and set(versions) == {1, 2, 3, 4}
    gap, at = longest_gap(load.tokens)
    print(f"{len(load.requests)} requests, {len(load.tokens)} tokens; longest gap {gap:.2f} s at version {at}")  # noqa: T201
    assert gap <= MAX_GAP_S

    noisy = complete(server, ids)
    assert noisy.headers["x-policy-version"] == "4"
    outputs[4] = noisy.json()["choices"][0]["text"]
    change(server, "adapter")
    outputs[5] = complete(server, ids).json()["choices"][0]["text"]
    assert outputs[5] == outputs[1] != outputs[4]


def longest_gap(tokens: list[Token]) -> tuple[float, int]:
    ordered = sorted(tokens, key=lambda token: token.at)
    return max((after.at - before.at, after.version) for before, after in itertools.pairwise(ordered))


def test_the_metrics_tell_of_it(server: Server) -> None:
    text = server.http.get("/metrics").text
    version = server.http.get("/v1/policy").json()["version"]
    assert f'parallelsearch_policy_version{{model="{MODEL}"}} {float(version)}' in text
    for outcome in ("loaded", "refused", "failed"):
        assert f'parallelsearch_policy_weight_changes_total{{outcome="{outcome}"}}' in text
