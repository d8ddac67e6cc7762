"""The plan follows from the environment alone."""

import pytest

from parallelsearch.errors import ConfigurationError
from parallelsearch.supervisor import demo_index, places, settings
from parallelsearch.supervisor.places import MAX_SOCKET_PATH_BYTES
from parallelsearch.supervisor.plan import make_plan


def plan(tmp_path, *, build_index=False, **environ):
    environ = {"PARALLELSEARCH_STATE_DIR": str(tmp_path)} | environ
    chosen = settings.from_environment(environ, tmp_path)
    return make_plan(chosen, build_index=build_index)


def names(plan):
    return [step.name for step in plan.steps]


def test_everything_is_started_by_default_on_loopback(tmp_path):
    made = plan(tmp_path, build_index=True)
    assert names(made) == ["valkey", "policy", "index", "retriever", "trainer", "gateway"]
    assert made.url == "http://127.0.0.1:8080"
    assert made.env["POLICY_BASE_URL"] == "http://127.0.0.1:8002/v1"
    assert made.env["REDIS_URL"] == f"unix://{tmp_path}/run/valkey.sock"
    assert made.env["RETRIEVER_INDEX"] == f"{tmp_path}/index/demo"


def test_services_read_and_write_utf_8_in_any_locale(tmp_path):
    assert plan(tmp_path).env["PYTHONUTF8"] == "1"


def test_what_the_user_brings_is_not_started(tmp_path):
    made = plan(tmp_path, REDIS_URL="redis://cache:6379/0", POLICY_BASE_URL="http://gpu:8000/v1")
    assert names(made) == ["retriever", "trainer", "gateway"]
    assert made.env["REDIS_URL"] == "redis://cache:6379/0"
    assert made.env["POLICY_BASE_URL"] == "http://gpu:8000/v1"


def test_the_retriever_waits_for_the_build_only_where_there_is_one(tmp_path):
    assert {step.name: step.after for step in plan(tmp_path, build_index=True).steps}["retriever"] == ("index",)
    assert {step.name: step.after for step in plan(tmp_path).steps}["retriever"] == ()


def test_ports_and_hosts_move_by_variables(tmp_path):
    made = plan(tmp_path, GATEWAY_HOST="0.0.0.0", GATEWAY_PORT="18300", RETRIEVER_PORT="18301")
    assert made.url == "http://127.0.0.1:18300", "what listens everywhere is reached over loopback"
    assert (made.env["GATEWAY_HOST"], made.env["GATEWAY_PORT"]) == ("0.0.0.0", "18300")
    assert made.env["RETRIEVER_URL"] == "http://127.0.0.1:18301"


def test_platforms_with_state_folders_of_their_own_share_no_runs(tmp_path):
    one, other = (plan(tmp_path, PARALLELSEARCH_STATE_DIR=str(tmp_path / name)).env for name in ("one", "other"))
    assert one["TRAINER_RUNS_DIR"] == one["POLICY_CHECKPOINT_ROOTS"] == f"{tmp_path}/one/trainer/runs"
    assert one["TRAINER_MODEL_ROOTS"] == f"models:{tmp_path}/one/trainer/runs"
    changing = {name for name in one if str(tmp_path) in one[name]}
    assert not {one[name] for name in changing} & {other[name] for name in changing}


def test_runs_and_roots_that_are_named_are_taken(tmp_path):
    given = {"TRAINER_RUNS_DIR": "runs", "TRAINER_MODEL_ROOTS": "/models:/runs", "POLICY_CHECKPOINT_ROOTS": "/runs"}
    made = plan(tmp_path, **given).env
    assert {name: made[name] for name in given} == given | {"TRAINER_RUNS_DIR": f"{tmp_path}/runs"}


@pytest.mark.parametrize("port", ["0", "70000", "eighty", "-1"])
def test_a_wrong_port_is_named(tmp_path, port):
    with pytest.raises(ConfigurationError, match="GATEWAY_PORT"):
        plan(tmp_path, GATEWAY_PORT=port)


def test_two_services_on_one_port_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="a port of its own"):
        plan(tmp_path, GATEWAY_PORT="8001")


def test_a_path_too_long_for_a_socket_makes_valkey_listen_on_a_port(tmp_path):
    deep = tmp_path / ("d" * MAX_SOCKET_PATH_BYTES)
    made = plan(tmp_path, PARALLELSEARCH_STATE_DIR=str(deep))
    assert made.env["REDIS_URL"] == "redis://127.0.0.1:6379/0"
    assert "--unixsocket" not in made.steps[0].command


def test_an_index_is_current_only_for_the_corpus_it_was_built_from(tmp_path):
    source = tmp_path / "corpus.jsonl"
    source.write_text('{"id": "1", "title": "a", "text": "b"}\n')
    assert not demo_index.is_current(tmp_path, source)
    (tmp_path / "manifest.json").write_text("{")
    assert not demo_index.is_current(tmp_path, source)
    digest = "5f6c7d1d2b1f2f3e"
    (tmp_path / "manifest.json").write_text(f'{{"sources": [{{"sha256": "{digest}"}}]}}')
    assert not demo_index.is_current(tmp_path, source)


def test_the_admin_token_is_made_once_and_private(tmp_path):
    state = settings.from_environment({"PARALLELSEARCH_STATE_DIR": str(tmp_path / "state")}, tmp_path).state
    state.make()
    token = state.read_admin_token()
    assert len(token) >= 32
    assert state.read_admin_token() == token
    assert state.admin_token.stat().st_mode & 0o777 == 0o600


def test_the_state_lies_in_the_project_that_is_called_in_else_run_from_else_in_the_home(tmp_path, monkeypatch):
    called_in, run_from, elsewhere = (tmp_path / name for name in ("a", "b", "c"))
    for root in (called_in, run_from):
        (root / "packages" / "parallelsearch").mkdir(parents=True)
        (root / "packages" / "parallelsearch" / "pyproject.toml").touch()
    elsewhere.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places.state_folder({}, called_in, run_from).root == called_in / ".state"
    assert places.state_folder({}, elsewhere, run_from).root == run_from / ".state"
    assert places.state_folder({}, elsewhere, elsewhere).root == tmp_path / ".local" / "state" / "parallelsearch"
    assert places.state_folder({"PARALLELSEARCH_STATE_DIR": "here"}, elsewhere, run_from).root == elsewhere / "here"


def test_who_has_no_home_is_told_what_to_name(tmp_path, monkeypatch):
    """A user of a container who stands in no list of users, say."""

    def unknown(number):
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(ConfigurationError, match="PARALLELSEARCH_CACHE_DIR"):
        settings.from_environment({"PARALLELSEARCH_STATE_DIR": str(tmp_path)}, tmp_path)
    with pytest.raises(ConfigurationError, match="PARALLELSEARCH_STATE_DIR"):
        places.state_folder({}, tmp_path, tmp_path)
    named = {name: str(tmp_path) for name in ("PARALLELSEARCH_STATE_DIR", "PARALLELSEARCH_CACHE_DIR")}
    assert settings.from_environment(named, tmp_path).cache == tmp_path


def test_what_holds_secrets_is_private(tmp_path):
    state = places.StateFolder(tmp_path / "state")
    state.make()
    assert state.run.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("left", [None, "", "\n"])
def test_an_admin_token_is_made_once_for_its_owner_alone_whatever_a_killed_start_left(tmp_path, left):
    state = places.StateFolder(tmp_path)
    if left is not None:
        state.admin_token.write_text(left)
        (tmp_path / "admin-token.new").write_text("half")
    token = state.read_admin_token()
    assert len(token) > 30
    assert state.admin_token.stat().st_mode & 0o777 == 0o600
    assert state.read_admin_token() == token
    assert [path.name for path in tmp_path.iterdir()] == ["admin-token"]
