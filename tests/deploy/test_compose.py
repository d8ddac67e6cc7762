import re
import shutil
import subprocess

import pytest
import yaml
from deployed import IMAGES, ROOT, SERVICES, is_variable, port_of, variables

TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
RUNNING = {name: service for name, service in COMPOSE["services"].items() if service.get("restart") != "no"}
OURS = {"gateway": "gateway", "retriever": "retriever", "policy": "policy", "trainer": "trainer"}
OURS |= {"retriever-gpu": "retriever", "policy-gpu": "policy"}
each_service = pytest.mark.parametrize("name", COMPOSE["services"])


def substituted(text):
    return set(re.findall(r"\$\{([A-Z_]+)", text))


@each_service
def test_services_are_closed(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@each_service
def test_images_are_known_and_built_from_the_project_where_they_are_ours(name):
    service = COMPOSE["services"][name]
    assert service["image"] in IMAGES
    assert service["image"].startswith("parallelsearch/") == ("build" in service)
    if "build" in service:
        assert (ROOT / service["build"]["dockerfile"]).is_file()


@each_service
def test_variables_are_settings(name):
    assert {
        key for key in COMPOSE["services"][name].get("environment", {}) if not is_variable(key) and not key.startswith("GF_")
    } == set()


@pytest.mark.parametrize("name", OURS)
def test_only_what_depends_on_containers_goes_over_what_is_set(name):
    """`environment` goes over `.env`: where to listen, whom to ask, where things lie, and how long a stop may take."""
    fixed = {key: value for key, value in COMPOSE["services"][name]["environment"].items() if value and "$" not in str(value)}
    ours = ("_HOST", "_PORT", "_URL", "_DISCOVERY", "_SHUTDOWN_GRACE_S")
    assert {key: value for key, value in fixed.items() if not key.endswith(ours) and not value.startswith("/")} == {}


def test_what_can_be_set_stands_in_env_example():
    assert substituted(TEXT) - variables() == set()


def test_what_stays_comes_back_by_itself_and_says_how_it_is():
    for name, service in RUNNING.items():
        assert service["restart"] == "unless-stopped", name
        # Ours have their check in the image.
        assert "healthcheck" in service or name in OURS, name


def test_only_the_index_build_ends():
    assert COMPOSE["services"].keys() - RUNNING.keys() == {"index"}


def test_services_wait_for_what_they_need():
    for name, service in COMPOSE["services"].items():
        for needed, how in service.get("depends_on", {}).items():
            ends = needed not in RUNNING
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy"), (name, needed)


@pytest.mark.parametrize("name", OURS)
def test_services_listen_where_others_look_for_them(name):
    service, port = OURS[name], port_of(OURS[name])
    environment = COMPOSE["services"][name]["environment"]
    assert environment[f"{service.upper()}_HOST"] == "0.0.0.0"
    assert environment[f"{service.upper()}_PORT"] == str(port)
    for published in COMPOSE["services"][name].get("ports", []):
        assert published.endswith(f":{port}")


def test_upstreams_are_services_on_their_ports():
    for name, host, port in re.findall(r"^\s+(\w+_URL): \w+://([a-z-]+):(\d+)", TEXT, re.M):
        assert host in COMPOSE["services"], name
        assert int(port) == (6379 if host == "redis" else port_of(host)), name


def test_volumes_are_declared():
    named = set()
    for service in COMPOSE["services"].values():
        named |= {volume.partition(":")[0] for volume in service.get("volumes", []) if not volume.startswith((".", "$"))}
    assert named | {"data"} == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("name", ["retriever", "retriever-gpu"])
def test_uploads_of_documents_have_a_place_to_stay_and_are_closed_without_a_token(name):
    service = COMPOSE["services"][name]
    assert service["environment"]["RETRIEVER_INDEXES"] == "/indexes"
    assert "indexes:/indexes" in service["volumes"]
    # From .env or the environment; without a value Compose leaves it out.
    assert service["environment"]["ADMIN_TOKEN"] is None


def test_the_gateway_says_that_it_is_open():
    assert COMPOSE["services"]["gateway"]["environment"]["AUTH"] == "${AUTH:-off}"


def test_the_index_is_built_of_what_the_image_holds():
    corpus = re.search(r"site-packages/(parallelsearch/\S+?)}", TEXT)
    assert corpus and (ROOT / "packages" / "parallelsearch" / "src" / corpus[1]).is_file()


def test_the_gpu_profile_takes_the_place_of_the_cpu():
    for service in ("retriever", "policy"):
        assert COMPOSE["services"][service]["scale"] == "${CPU_ENGINES:-1}"
        on_gpu = COMPOSE["services"][f"{service}-gpu"]
        assert on_gpu["profiles"] == ["gpu"]
        assert on_gpu["networks"]["default"]["aliases"] == [service]
        assert COMPOSE["services"]["gateway"]["depends_on"][f"{service}-gpu"]["required"] is False
    assert {name for name, service in COMPOSE["services"].items() if "profiles" not in service} >= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_services_may_finish_what_they_have_accepted(name):
    service = COMPOSE["services"][name]
    finish_s = float(service["environment"].get(f"{OURS[name].upper()}_SHUTDOWN_GRACE_S", 20))
    assert float(service["stop_grace_period"].removesuffix("s")) > finish_s


@pytest.mark.parametrize("arguments", [[], ["--profile", "gpu"]])
def test_compose_reads_it(arguments):
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("NOT CHECKED: `docker compose config` needs docker with the compose plugin")
    done = subprocess.run(
        ["docker", "compose", *arguments, "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
