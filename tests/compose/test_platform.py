"""From `docker compose up` to `down -v`: one platform, the tests in a person's order (make test-compose)."""

import json
import signal
import time

import httpx2
import pytest
from compose_platform import OURS, PROJECT, QUESTION, Compose, Load, docker, require_engine

from parallelsearch.demo import demo_file

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]
STAYING = (*OURS, "redis", "canary", "prometheus", "grafana")
BYSTANDERS = ("trainer", "canary", "prometheus", "grafana")
ADMIN_TOKEN = "of-the-test"
LAKES = """# Lakes

## Lake Baikal

Lake Baikal is 1642 metres deep. It lies in Siberia.

## Lake Tanganyika

Lake Tanganyika is 1470 metres deep. It lies in Africa.
"""


@pytest.fixture(scope="module")
def started():
    require_engine()
    compose = Compose(CANARY_QUESTIONS="4", ADMIN_TOKEN=ADMIN_TOKEN)
    compose("down", "--volumes", "--remove-orphans")
    compose("build", timeout_s=1200)
    try:
        _, up_s = compose("up", "--detach", "--wait", "--wait-timeout", "300", check=False)
        compose.note(compose("ps", "--all", "--format", "table {{.Service}}\t{{.Status}}\t{{.Ports}}")[0])
        yield compose, up_s
    finally:
        compose("down", "--volumes", "--remove-orphans")


@pytest.fixture
def compose(started):
    compose, _ = started
    assert all(compose.state(service)["Health"]["Status"] == "healthy" for service in STAYING), compose("logs", "--tail", "20")[0]
    return compose


@pytest.fixture(scope="module")
def questions():
    return [json.loads(line)["question"] for line in demo_file("questions.jsonl").read_text().splitlines()]


def ask(compose, question=QUESTION, **how):
    return httpx2.post(f"{compose.gateway}/v1/answers", json={"question": question, **how}, timeout=90, trust_env=False)


def ready(compose):
    return httpx2.get(f"{compose.gateway}/readyz", timeout=10, trust_env=False).json()


def test_all_is_healthy_within_five_minutes(started, compose):
    _, up_s = started
    assert up_s <= 300
    assert compose.state("index")["ExitCode"] == 0
    assert ready(compose) == {"status": "ready", "checks": {"policy": "ok", "retriever": "ok", "cache": "ok"}}


def test_a_question_is_answered_through_the_published_port(compose):
    response = ask(compose)
    answer = response.json()
    shown = json.dumps({key: answer.get(key) for key in ("answer", "stop_reason", "usage", "citations")})
    compose.note(f'$ curl -s {compose.gateway}/v1/answers --json \'{{"question": "{QUESTION}"}}\'', shown)
    assert response.status_code == 200
    # The canary asks beside it, and what shares a batch with a rollout can turn a token of a model this small.
    # make test-e2e asks alone.
    assert answer["answer"].strip() in {"Camille Pissarro", "Claude Monet"}
    assert (answer["usage"]["search_rounds"], answer["usage"]["sub_queries"]) == (1, 2)
    assert {citation["title"] for citation in answer["citations"]} >= {"Claude Monet", "Camille Pissarro"}


def test_containers_run_as_compose_says(compose):
    for service in STAYING:
        found = json.loads(docker("inspect", compose.container(service)))[0]
        assert found["Config"]["User"] not in {"", "0", "root"}
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        assert found["HostConfig"]["CapDrop"] == ["ALL"]
        assert found["HostConfig"]["Memory"] > 0
        published = [binding for bindings in found["NetworkSettings"]["Ports"].values() for binding in bindings or []]
        assert {binding["HostIp"] for binding in published} <= {"127.0.0.1"}


def test_an_uploaded_document_is_cited_and_outlives_its_container(compose):
    url = f"{compose.gateway}/v1/indexes/lakes"
    files = {"files": ("lakes.md", LAKES)}
    assert httpx2.post(f"{url}/documents", files=files, trust_env=False).status_code == 401
    admin = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    accepted = httpx2.post(f"{url}/documents", files=files, headers=admin, timeout=30, trust_env=False)
    assert accepted.status_code == 202, accepted.text
    compose.note(f"$ curl -s {url}/documents -H 'Authorization: Bearer …' -F files=@lakes.md", accepted.text)
    until = time.monotonic() + 120
    while (status := httpx2.get(url, timeout=30, trust_env=False).json())["work"]["state"] in {"queued", "running"}:
        assert time.monotonic() < until, status
        time.sleep(0.5)
    assert status["work"]["state"] == "done", status
    cites_lakes(compose)
    old = docker("inspect", compose.container("retriever"), "--format", "{{.Id}}")
    compose("up", "--detach", "--no-deps", "--force-recreate", "retriever")
    compose.wait_until_healthy("retriever")
    wait_until_ready(compose)
    assert docker("inspect", compose.container("retriever"), "--format", "{{.Id}}") != old
    (document,) = httpx2.get(url, timeout=30, trust_env=False).json()["documents"]
    assert (document["source"], document["state"], document["uploaded"]) == ("lakes.md", "indexed", True)
    cites_lakes(compose)


def cites_lakes(compose):
    question = "Which lake is deeper, Lake Baikal or Lake Tanganyika?"
    response = ask(compose, question, index="lakes")
    assert response.status_code == 200, response.text
    answer = response.json()
    compose.note(f"# {question} {json.dumps({key: answer[key] for key in ('answer', 'citations')})}")
    assert {citation["source"] for citation in answer["citations"]} == {"lakes.md"}


def test_sixteen_at_once_are_answered(compose, questions):
    with Load(compose.gateway, questions, workers=16, deadline_s=120) as load:
        time.sleep(45)
    answered = load.outcomes("")
    compose.note(f"# 16 in flight for 45 s: {dict(answered)}")
    assert set(answered) == {200}
    assert answered[200] >= 16


def test_prometheus_reads_every_service(compose):
    url = f"http://127.0.0.1:{compose.ports['prometheus']}/api/v1/targets"
    until = time.monotonic() + 60
    while True:
        targets = httpx2.get(url, trust_env=False).json()["data"]["activeTargets"]
        up = {target["labels"]["job"] for target in targets if target["health"] == "up"}
        if up == {*OURS, "canary", "prometheus"}:
            break
        assert time.monotonic() < until, targets
        time.sleep(2)
    compose.note(f"# Prometheus reads: {', '.join(sorted(up))}")


def test_redis_killed_under_load_costs_no_answer(compose, questions):
    load = crashed(compose, "redis", questions)
    assert set(load.outcomes("down")) | set(load.outcomes("back")) == {200}
    until = time.monotonic() + 30
    while ready(compose)["status"] != "ready":
        assert time.monotonic() < until, ready(compose)
        time.sleep(0.5)
    ask(compose)
    assert ask(compose).json()["usage"]["cache_hits"] == 2


def test_the_retriever_killed_under_load_comes_back(compose, questions):
    load = crashed(compose, "retriever", questions)
    assert set(load.outcomes("down")) <= {200, 503, 504}
    for _, status, headers, text in load.bodies:
        problem = json.loads(text)
        assert problem["type"].startswith("urn:parallelsearch:problem:"), text
        assert status != 503 or "retry-after" in headers
    assert ask(compose).status_code == 200


def test_the_policy_killed_under_load_comes_back(compose, questions):
    load = crashed(compose, "policy", questions)
    down = load.outcomes("down")
    assert set(down) <= {200, 503, 504}
    assert down[503] + down[504] > 0
    assert all("retry-after" in headers for _, status, headers, _ in load.bodies if status == 503)
    trajectories = [json.loads(text).get("trajectory") for _, _, _, text in load.bodies]
    assert any(found and found["stop_reason"] in {"policy_failed", "deadline"} for found in trajectories)
    assert ask(compose).status_code == 200


def test_the_gateway_killed_under_load_comes_back(compose, questions):
    load = crashed(compose, "gateway", questions)
    assert all(outcome == 200 or isinstance(outcome, str) for outcome in load.outcomes("down")), load.outcomes("down")
    assert ask(compose).status_code == 200


@pytest.mark.parametrize("service", BYSTANDERS)
def test_what_takes_no_part_in_answers_is_killed_unnoticed(compose, questions, service):
    load = crashed(compose, service, questions)
    assert set(load.outcomes("down")) | set(load.outcomes("back")) == {200}


def test_docker_kill_is_a_stop_by_hand_and_up_brings_it_back(compose):
    """Docker's own rule: after `docker kill` its restart policy waits for a person."""
    docker("kill", compose.container("trainer"))
    time.sleep(5)
    assert compose.state("trainer")["Status"] == "exited"
    compose("up", "--detach", "--wait", "--no-deps", "trainer")
    compose.wait_until_healthy("trainer")


def crashed(compose, service, questions):
    """Kills a service under load, waits until it is healthy again, and lets the load go on for a while."""
    before = compose.state(service)["RestartCount"]
    load = Load(compose.gateway, questions)
    load.phase = "before"
    with load:
        time.sleep(3)
        load.phase = "down"
        compose.crash(service)
        while compose.state(service)["RestartCount"] == before:
            time.sleep(0.2)
        took_s = compose.wait_until_healthy(service)
        if service in OURS:
            wait_until_ready(compose)
        time.sleep(5)
        load.phase = "back"
        until = time.monotonic() + 90
        while load.outcomes("back").total() < 2 and time.monotonic() < until:
            time.sleep(0.5)
    down, back = dict(load.outcomes("down")), dict(load.outcomes("back"))
    compose.note(f"# {service}: healthy again after {took_s:.1f} s; answers asked meanwhile {down}, afterwards {back}")
    assert set(load.outcomes("back")) == {200}, load.bodies[-1:]
    return load


def wait_until_ready(compose, timeout_s=60):
    until = time.monotonic() + timeout_s
    while True:
        try:
            if ready(compose)["status"] == "ready":
                return
        except httpx2.TransportError:
            pass
        assert time.monotonic() < until
        time.sleep(0.5)


def test_a_clean_stop_finishes_what_was_accepted(compose, questions):
    """SIGTERM under load: every answer that the gateway took is given."""
    with Load(compose.gateway, questions) as load:
        time.sleep(5)
        load.phase = "stopping"
        _, took_s = compose("stop", "gateway")
    assert set(load.outcomes("")) == {200}
    compose.note(f"# gateway stopped in {took_s:.1f} s; answers in flight: {dict(load.outcomes(''))}")
    # uvicorn hands the signal on once it is done; 137 would be the end of Compose's patience.
    assert compose.state("gateway")["ExitCode"] in (0, 128 + signal.SIGTERM)
    compose("start", "gateway")
    compose.wait_until_healthy("gateway")


def test_down_leaves_nothing(compose):
    compose("down", "--volumes")
    label = f"label=com.docker.compose.project={PROJECT}"
    for kind in (("ps", "--all"), ("volume", "ls"), ("network", "ls")):
        assert docker(*kind, "--quiet", "--filter", label) == ""
    compose.note("# nothing is left: no container, volume or network of the project")
