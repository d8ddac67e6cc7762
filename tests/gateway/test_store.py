import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

from gateway.auth import new_key
from parallelsearch.schemas.answers import TrajectoryModel


@pytest.fixture
def two_keys(tmp_path):
    made = [new_key(name) for name in ("a", "b")]
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([key.model_dump() for _, key in made]))
    return path, [{"authorization": f"Bearer {token}"} for token, _ in made]


def ask(client, headers=None, **body):
    return client.post("/v1/answers", json={"question": QUESTION} | body, headers=headers or {})


def test_nothing_is_stored_unless_asked_for(start_gateway):
    client = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES))
    identifier = ask(client).json()["id"]
    refused = client.get(f"/v1/answers/{identifier}")
    assert (refused.status_code, "GATEWAY_STORE_PATH" in refused.json()["detail"]) == (404, True)


def test_a_stored_answer_is_its_owners_alone(start_gateway, two_keys, tmp_path):
    path, (a, b) = two_keys
    client = start_gateway(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), api_keys_file=path, store_path=tmp_path / "s.db")
    answer = ask(client, a).json()
    assert client.get(f"/v1/answers/{answer['id']}", headers=a).json() == answer
    assert client.get(f"/v1/answers/{answer['id']}", headers=b).status_code == 404
    assert client.get(f"/v1/answers/{answer['id']}").status_code == 401
    assert client.get("/v1/answers/nope", headers=a).status_code == 404
    assert client.get("/v1/answers", headers=b).text == ""


def test_export_is_one_trajectory_a_line_in_order_across_pages_and_restarts(start_gateway, tmp_path):
    policy = fake_policy([DONE] * 230)
    client = start_gateway(policy, fake_retriever(PASSAGES), store_path=tmp_path / "folder" / "s.db")
    asked = [ask(client).json()["id"] for _ in range(220)]
    again = start_gateway(policy, fake_retriever(PASSAGES), store_path=tmp_path / "folder" / "s.db")
    response = again.get("/v1/answers")
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [TrajectoryModel.model_validate_json(line) for line in response.text.splitlines()]
    assert [line.id for line in lines] == asked
    assert again.get("/v1/answers", params={"since": 9e9}).text == ""
    assert again.get("/v1/answers", params={"since": "x"}).status_code == 422


def test_a_copy_made_and_put_back_as_documented_serves_again(start_gateway, tmp_path):
    """The copy is of a file in use; the file goes on, its gateway is killed, and the copy takes its place."""
    text = Path(__file__).resolve().parents[2].joinpath("docs", "operations.md").read_text()
    (line,) = re.findall(r"""`python -c "(import sqlite3; .*?)"`""", text)
    leftovers = re.findall(r"`FILE(-\w+)`", text)
    store, policy = tmp_path / "s.db", fake_policy([DONE] * 40)
    client = start_gateway(policy, fake_retriever(PASSAGES), store_path=store)
    asked = [ask(client).json()["id"] for _ in range(10)]
    program = line.replace("FILE", str(store)).replace("COPY", str(tmp_path / "copy"))
    subprocess.run([sys.executable, "-c", program], check=True)
    for _ in range(30):
        ask(client)
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("s.db", "s.db-wal", "s.db-shm"):
        shutil.copy(tmp_path / name, killed)
    shutil.copy(tmp_path / "copy", killed / "s.db")
    for ending in leftovers:
        (killed / f"s.db{ending}").unlink()
    again = start_gateway(policy, fake_retriever(PASSAGES), store_path=killed / "s.db")
    assert [json.loads(answer)["id"] for answer in again.get("/v1/answers").text.splitlines()] == asked


def test_failed_and_streamed_rollouts_are_stored_too(start_live, tmp_path):
    gateway = start_live(fake_policy([BOTH, 500, DONE]), fake_retriever(PASSAGES), store_path=tmp_path / "s.db")
    failed = httpx2.post(f"{gateway.url}/v1/answers", json={"question": QUESTION}).json()["trajectory"]
    assert httpx2.get(f"{gateway.url}/v1/answers/{failed['id']}").json()["stop_reason"] == "policy_failed"
    with httpx2.Client().sse(f"{gateway.url}/v1/answers", method="POST", json={"question": QUESTION, "stream": True}) as source:
        done = json.loads(list(source)[-1].data)
    assert httpx2.get(f"{gateway.url}/v1/answers/{done['id']}").json()["answer"] == "Camille Pissarro"


def test_old_answers_go_at_start(start_gateway, tmp_path):
    path = tmp_path / "s.db"
    policy = fake_policy([DONE] * 3)
    client = start_gateway(policy, fake_retriever(PASSAGES), store_path=path)
    old, new = ask(client).json()["id"], ask(client).json()["id"]
    with sqlite3.connect(path) as direct:
        direct.execute("UPDATE answers SET at = at - 40 * 86400 WHERE id = ?", (old,))
    direct.close()
    again = start_gateway(policy, fake_retriever(PASSAGES), store_path=path)
    again.get("/v1/answers")
    assert [again.get(f"/v1/answers/{identifier}").status_code for identifier in (old, new)] == [404, 200]


def test_a_store_that_cannot_write_costs_no_answer(start_gateway, tmp_path):
    path = tmp_path / "s.db"
    client = start_gateway(fake_policy([DONE] * 2), fake_retriever(PASSAGES), store_path=path)
    with sqlite3.connect(path) as direct:
        direct.execute("DROP TABLE answers")
    direct.close()
    assert ask(client).status_code == 200
    assert "parallelsearch_store_failures_total 1.0" in client.get("/metrics").text


def test_a_path_that_cannot_be_used_stops_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    code = "from gateway.app import create_app; from gateway.settings import GatewaySettings; import fastapi.testclient as t\n"
    code += f"with t.TestClient(create_app(GatewaySettings(store_path={str(tmp_path / 'file' / 's.db')!r}))): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "GATEWAY_STORE_PATH" in done.stderr


def torn(file):
    """As a fault of the disk may leave it, under a gateway that has it open."""
    with sqlite3.connect(file) as direct:
        direct.execute("UPDATE answers SET body = x'00'")


def without_its_table(file):
    with sqlite3.connect(file) as direct:
        direct.execute("DROP TABLE answers")


@pytest.mark.parametrize("harm", [torn, without_its_table])
def test_a_store_that_cannot_be_read_is_a_problem_with_its_name(start_gateway, tmp_path, harm):
    client = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), store_path=tmp_path / "s.db")
    identifier = ask(client).json()["id"]
    harm(tmp_path / "s.db")
    for path in (f"/v1/answers/{identifier}", "/v1/answers"):
        refused = client.get(path)
        assert (refused.status_code, refused.json()["title"]) == (503, "Upstream unavailable")
        assert "stored answers" in refused.json()["detail"]
