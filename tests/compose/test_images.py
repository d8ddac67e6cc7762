"""The images of our services: built cold from their lists, small, without root, without build tools (make test-compose)."""

import json

import pytest
from compose_platform import FOREIGN, OURS, Compose, docker, require_engine

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]
BASE = "python:3.11-slim-bookworm"
TOOLS = ("cc", "gcc", "g++", "clang", "make", "cmake", "ninja", "git", "npm", "node", "uv", "cargo")
MB = 1_000_000


@pytest.fixture(scope="module")
def built():
    """Seconds of each cold build: no layer is taken from a cache, but those that were built in this fixture."""
    require_engine()
    compose = Compose()
    compose("build", *FOREIGN)
    _, light_s = compose("build", "--no-cache", "gateway", "retriever", "trainer")
    # The engines' layer is the retriever's.
    _, policy_s = compose("build", "policy")
    for image in OURS:
        compose.note(f"# parallelsearch/{image}: {above_base(image) / MB:.0f} MB above {BASE}")
    return compose, light_s, policy_s


def size(image):
    return int(docker("image", "inspect", image, "--format", "{{.Size}}"))


def above_base(service):
    return size(f"parallelsearch/{service}") - size(BASE)


def in_image(service, *command):
    """In the image as Compose runs it: no root, nothing can be written but /tmp."""
    closed = (
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges:true",
        "--network",
        "none",
    )
    return docker("run", "--rm", *closed, f"parallelsearch/{service}", *command)


def test_everything_but_the_policy_builds_in_five_minutes(built):
    _, light_s, _ = built
    assert light_s <= 300


def test_the_gateway_adds_at_most_120_mb_to_its_base(built):
    assert above_base("gateway") <= 120 * MB


@pytest.mark.parametrize("service", OURS)
def test_images_say_how_they_are_and_run_without_root(built, service):
    found = json.loads(docker("image", "inspect", f"parallelsearch/{service}"))[0]["Config"]
    assert found["User"] == "10001:10001"
    assert found["Healthcheck"]["Test"][0] == "CMD"
    assert in_image(service, "id", "-u") == "10001"


@pytest.mark.parametrize("service", OURS)
def test_nothing_can_be_written_but_tmp(built, service):
    places = "/ /etc /opt/venv /usr/local/bin /var/tmp /home"
    script = f"for place in {places}; do touch $place/x 2>/dev/null && echo $place; done; touch /tmp/x && echo /tmp"
    assert in_image(service, "sh", "-c", script) == "/tmp"


@pytest.mark.parametrize("service", OURS)
def test_there_are_no_build_tools(built, service):
    """pip at /usr/local/bin belongs to the base; what we install has none."""
    found = in_image(
        service, "sh", "-c", f"for tool in {' '.join(TOOLS)}; do command -v $tool; done; ls /opt/venv/bin/pip* 2>/dev/null; true"
    )
    assert found == ""


@pytest.mark.parametrize("service", OURS)
def test_files_of_an_image_are_not_its_users(built, service):
    """What runs cannot change its own code, by permission: `-writable` is never true on a read-only file system."""
    found = in_image(service, "sh", "-c", "find /opt/venv ! -type l '(' -user 10001 -o -group 10001 -o -perm -o+w ')' | head -3")
    assert found == ""


@pytest.mark.parametrize("service", OURS)
def test_bytecode_is_there_since_nothing_could_write_it(built, service):
    program = f"import {service}.settings as m, pathlib; print(pathlib.Path(m.__cached__).is_file())"
    assert in_image(service, "python", "-c", program) == "True"
