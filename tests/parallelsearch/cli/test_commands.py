"""The commands as a user runs them, each in a process of its own, against a stand-in gateway."""

import json
import os
import resource
import subprocess
import sys

import pytest
from gateway_stand_in import QUERIES, gateway_stand_in, problem, trajectory

from parallelsearch.cli.index import hand_over
from parallelsearch.rollout.types import StopReason


@pytest.fixture
def gateway():
    with gateway_stand_in() as stand_in:
        yield stand_in


@pytest.fixture
def cli(tmp_path):
    def run(*arguments, **environ):
        env = os.environ | {"PARALLELSEARCH_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "100"} | environ
        command = [sys.executable, "-m", "parallelsearch", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60, check=False)

    return run


def test_ask_shows_reasoning_sub_queries_answer_sources_and_totals(cli, gateway):
    gateway.answer = 200, trajectory().model_dump(mode="json")
    done = cli("ask", "Who is older?", "--url", gateway.url, "--top-k", "2", "--mode", "sequential")
    assert done.returncode == 0, done.stderr
    for shown in ("I need both dates.", *QUERIES, "0.83 Claude Monet", "Camille Pissarro", "Sources", "[p-1]", "2 LLM calls"):
        assert shown in done.stdout
    assert "1 search round, 2 sub-queries, 0 from the cache · 4.3 s" in done.stdout
    path, body, _ = gateway.seen[0]
    assert path == "/v1/answers"
    assert (body["question"], body["top_k"], body["mode"]) == ("Who is older?", 2, "sequential")


def test_ask_prints_the_whole_trajectory_as_json(cli, gateway):
    gateway.answer = 200, trajectory().model_dump(mode="json")
    done = cli("ask", "Who is older?", "--url", gateway.url, "--json")
    assert json.loads(done.stdout) == trajectory().model_dump(mode="json")
    assert done.stderr == ""


def test_a_key_goes_along(cli, gateway):
    gateway.answer = 200, trajectory().model_dump(mode="json")
    cli("ask", "Who?", "--url", gateway.url, PARALLELSEARCH_API_KEY="k-1")
    assert gateway.seen[0][2]["authorization"] == "Bearer k-1"


def test_an_unanswered_question_says_why_and_what_to_do(cli, gateway):
    gateway.answer = 200, trajectory(answer=None, stop_reason=StopReason.TURN_LIMIT).model_dump(mode="json")
    done = cli("ask", "Who?", "--url", gateway.url)
    assert done.returncode == 1
    assert "No answer (turn_limit)" in done.stdout
    assert "--max-turns" in done.stdout


def test_a_failed_rollout_shows_how_far_it_came_and_the_request_id(cli, gateway):
    so_far = trajectory(answer=None, stop_reason=StopReason.DEADLINE).model_dump(mode="json")
    gateway.answer = problem(504, "deadline-exceeded", "The deadline passed.", trajectory=so_far)
    done = cli("ask", "Who?", "--url", gateway.url)
    assert done.returncode == 1
    assert QUERIES[0] in done.stdout
    assert "No answer (deadline)" in done.stdout
    assert "The deadline passed." in done.stderr
    assert "r-42" in done.stderr


def test_a_refusal_of_the_gateway_is_wrong_input(cli, gateway):
    gateway.answer = problem(422, "invalid-request", "model: 'x' is not served here")
    done = cli("ask", "Who?", "--url", gateway.url)
    assert done.returncode == 2
    assert "model: 'x' is not served here" in done.stderr


def test_json_of_a_problem_is_the_problem(cli, gateway):
    gateway.answer = problem(503, "retrieval-failed", "No sub-query could be searched.")
    done = cli("ask", "Who?", "--url", gateway.url, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["type"] == "urn:parallelsearch:problem:retrieval-failed"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["ask", "  "], "question"),
        (["ask", "Who?", "--top-k", "1000"], "top_k"),
        (["ask", "Who?", "--max-turns", "-1"], "max_turns"),
        (["ask", "Who?", "--mode", "sideways"], "mode"),
        (["ask", "a" * 100_000], "question"),
        (["ask", b"Who\xff?"], "question"),
        (["search", "a", "--top-k", "0"], "top_k"),
    ],
)
def test_wrong_input_is_named_before_anything_is_sent(cli, gateway, arguments, named):
    done = cli(*arguments, "--url", gateway.url)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert gateway.seen == []


@pytest.mark.parametrize("arguments", [["ask", "Who?"], ["train", "list"]])
def test_an_address_that_is_none_is_named(cli, arguments):
    for address in ("nonsense", "http://[", "http://127.0.0.1:99999"):
        done = cli(*arguments, "--url", address)
        assert (done.returncode, done.stdout) == (2, ""), address
        assert done.stderr == f"✗ {address!r} is no address of the form http://host:port.\n"


@pytest.mark.parametrize("option", ["--url", "--retriever"])
def test_an_address_of_an_evaluation_that_is_none_is_named(cli, option):
    done = cli("eval", "demo", "--limit", "1", "--out", "o", "--direct", option, "http://127.0.0.1:99999")
    assert done.returncode == 2
    assert "✗ 'http://127.0.0.1:99999' is no address" in done.stderr


def test_a_key_that_cannot_be_sent_is_named_and_not_shown(cli, gateway):
    done = cli("ask", "Who?", "--url", gateway.url, PARALLELSEARCH_API_KEY="schlüssel")
    assert (done.returncode, done.stderr) == (2, "✗ PARALLELSEARCH_API_KEY: only printable ASCII characters can be sent.\n")
    assert gateway.seen == []


def test_a_fault_is_said_in_words_of_ours(cli):
    assert cli("ask", " ").stderr == "✗ question: must not be blank\n"


@pytest.mark.parametrize(
    "environ",
    [{"PARALLELSEARCH_STATE_DIR": "~nobody-of-this-name/x"}, {"PARALLELSEARCH_STATE_DIR": "/dev/null"}, {}],
    ids=["nobody", "a file", "a .env of other bytes"],
)
@pytest.mark.parametrize("arguments", [["status"], ["up"], ["ask", "Who?"], ["doctor"]])
def test_what_cannot_be_read_or_written_is_named_without_a_traceback(cli, tmp_path, environ, arguments):
    if not environ:
        (tmp_path / ".env").write_bytes(b"A=\xff\xfe\n")
    done = cli(*arguments, **environ)
    assert "Traceback" not in done.stderr
    assert done.returncode in {1, 2}
    assert any(named in done.stderr + done.stdout for named in ("PARALLELSEARCH_STATE_DIR", "/dev/null", ".env")), done.stderr


def test_a_folder_that_an_evaluation_cannot_write_to_is_named(cli, gateway, tmp_path):
    (tmp_path / "file").touch()
    done = cli("eval", "demo", "--limit", "1", "--out", "file/run", "--url", gateway.url)
    assert (done.returncode, "file/run" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_without_a_platform_it_says_how_to_start_one(cli):
    done = cli("ask", "Who?", "--url", "http://127.0.0.1:9")
    assert done.returncode == 3
    assert "make run" in done.stderr


def test_an_answer_that_is_not_ours_is_no_traceback(cli, gateway):
    for answer in ((200, b"<html>"), (200, {"hello": "world"}), (502, b"Bad gateway"), (500, b"[]")):
        gateway.answer = answer
        done = cli("ask", "Who?", "--url", gateway.url)
        assert done.returncode == 1, answer
        assert "Traceback" not in done.stderr


def test_search_shows_what_each_query_found(cli, gateway):
    passages = [{"id": "p-1", "title": "Claude Monet", "text": "A painter.", "score": 0.9}]
    results = [{"query": "monet", "passages": passages, "cached": True}, {"query": "nobody", "passages": [], "cached": False}]
    gateway.answer = 200, {"results": results}
    done = cli("search", "monet", "nobody", "--url", gateway.url)
    assert done.returncode == 0
    assert "0.90 Claude Monet [p-1]" in done.stdout
    assert "cached" in done.stdout
    assert "nothing found" in done.stdout
    assert gateway.seen[0][:2] == ("/v1/search", {"queries": ["monet", "nobody"], "top_k": 3})


def test_status_and_down_without_a_platform(cli):
    done = cli("status")
    assert (done.returncode, "make run" in done.stdout) == (3, True)
    assert json.loads(cli("status", "--json").stdout)["health"] == "stopped"
    done = cli("down")
    assert (done.returncode, done.stderr) == (0, "Nothing was running.\n")


def test_up_refuses_a_taken_port_and_says_who_holds_it(cli, gateway):
    port = gateway.url.rpartition(":")[2]
    done = cli("up", GATEWAY_PORT=port)
    assert done.returncode == 1
    assert f"port {port} of the gateway is taken by process {os.getpid()}" in done.stderr
    assert "GATEWAY_PORT=" in done.stderr


def test_a_dotenv_file_sets_what_the_environment_does_not(cli, tmp_path):
    (tmp_path / ".env").write_text("# ports\nGATEWAY_PORT=eighty\nRETRIEVER_PORT=\n")
    assert "'eighty'" in cli("up").stderr
    assert "'ninety'" in cli("up", GATEWAY_PORT="ninety").stderr


def test_up_refuses_a_port_that_is_none(cli):
    done = cli("up", GATEWAY_PORT="eighty")
    assert (done.returncode, "GATEWAY_PORT must be a port" in done.stderr) == (2, True)


def test_doctor_names_a_taken_port_and_fails(cli, gateway):
    port = gateway.url.rpartition(":")[2]
    done = cli("doctor", RETRIEVER_PORT=port)
    assert done.returncode == 1
    assert f"PROBLEM ports     port {port} of the retriever is taken" in done.stdout
    for part in ("python", "disk", "memory", "services", "engines", "models", "index", "platform"):
        assert part in done.stdout


def test_index_becomes_the_retriever_s_own_command_so_that_ending_one_ends_the_other(monkeypatch):
    become = []
    monkeypatch.setattr(os, "execve", lambda *given: become.append(given))
    hand_over("sync", ["docs", "--index", "mine"])
    ((program, arguments, environment),) = become
    assert (program, arguments[1:]) == (sys.executable, ["-m", "retriever", "index", "sync", "docs", "--index", "mine"])
    assert environment["RETRIEVER_INDEXES"]


def test_help_is_quick(cli):
    cli("--help")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = cli("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.8, "seconds of processor time"
    for command in ("up", "down", "status", "ask", "search", "index", "reward", "doctor"):
        assert f"  {command} " in done.stdout
