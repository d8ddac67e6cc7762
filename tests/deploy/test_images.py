import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from deployed import FOREIGN_VARIABLES, ROOT, SERVICES, is_variable, port_of

from retriever.settings import RetrieverSettings

DOCKERFILES = sorted([*ROOT.glob("services/*/Dockerfile"), *ROOT.glob("services/*/Dockerfile.gpu")])
BASES = {"scratch", "python:3.11-slim-bookworm", "vllm/vllm-openai:v0.32.0"}
each_dockerfile = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.relative_to(ROOT / "services")))


def joined(path: Path) -> str:
    """A Dockerfile without comments, continued lines in one."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.M)
    return re.sub(r"\\\n\s*", " ", text)


def last_stage(path: Path) -> str:
    return joined(path).rpartition("FROM ")[2]


def test_every_service_has_an_image():
    assert {path.parent.name for path in DOCKERFILES if path.name == "Dockerfile"} == set(SERVICES)


@each_dockerfile
def test_hadolint_finds_nothing(path):
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@each_dockerfile
def test_bases_are_plain_names_that_need_no_frontend(path):
    assert not path.read_text().startswith("# syntax")
    named = re.findall(r"^FROM (\S+)", joined(path), re.M)
    assert set(named) <= BASES | {"build"}


@each_dockerfile
def test_the_last_stage_runs_without_root_and_says_how_it_is(path):
    stage, port = last_stage(path), port_of(path.parent.name)
    assert re.search(r"^USER 10001:10001$", stage, re.M)
    assert f"EXPOSE {port}" in stage
    assert f"http://127.0.0.1:{port}/readyz" in stage
    assert re.search(rf'^CMD \["python3?", "-m", "{path.parent.name}"\]$', stage, re.M)
    assert "pip install" not in stage or path.suffix == ".gpu"


@each_dockerfile
def test_what_is_installed_is_pinned_by_a_list_that_is_there(path):
    for command in re.findall(r"pip [^&\n]*?\binstall [^&\n]*", joined(path)):
        listed = re.search(r"-r (requirements/\S+)", command)
        if listed is None:
            assert "--offline --no-deps" in command  # the project itself
            continue
        assert (ROOT / listed[1]).is_file()
        # torch's CPU builds differ per platform: pinned by version alone.
        assert "--require-hashes" in command or listed[1] == "requirements/torch-cpu.txt"


@each_dockerfile
def test_variables_of_an_image_are_settings(path):
    named = {name for line in re.findall(r"^ENV (.*)$", last_stage(path), re.M) for name in re.findall(r"([A-Z_0-9]+)=", line)}
    assert f"{path.parent.name.upper()}_HOST" in named
    assert {name for name in named if not is_variable(name)} == set()
    assert named & FOREIGN_VARIABLES.keys() >= {"HOME"}  # a read-only root file system: the home is on the tmpfs


def test_the_retriever_for_gpus_searches_and_encodes_there():
    """The card that manifests reserve for it would else lie idle: the settings' own defaults are the CPU."""
    stage = last_stage(ROOT / "services" / "retriever" / "Dockerfile.gpu")
    environment = dict(pair.split("=", 1) for pair in re.findall(r"\w+=\S+", stage))
    told = {name.removeprefix("RETRIEVER_").lower(): text for name, text in environment.items() if name.startswith("RETRIEVER_")}
    settings = RetrieverSettings(index=Path("index"), **told)
    assert settings.gpu is not None
    assert settings.encoder_device == "cuda"


def test_the_engines_are_installed_once_for_retriever_and_policy():
    texts = [joined(ROOT / "services" / service / "Dockerfile") for service in ("retriever", "policy")]
    first, second = (text[: text.index("COPY services/")] for text in texts)
    assert first == second


def test_the_context_holds_no_secrets_and_no_environments():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule for rule in rules if rule.startswith("!")} == {"!packages", "!requirements", "!services"}


def test_gpu_base_is_the_engine_that_is_pinned():
    pinned = re.search(r"^vllm==(\S+)", (ROOT / "requirements" / "engine-cuda.txt").read_text(), re.M)
    assert pinned and f"vllm/vllm-openai:v{pinned[1]}" in BASES


@pytest.mark.parametrize(
    ("service", "used"),
    [
        ("gateway", "gateway.__main__, gateway.keys, parallelsearch.cli.main"),
        ("retriever", "retriever.app, retriever.commands, retriever.index.build, parallelsearch.cli.main"),
        ("policy", "policy.serving"),
    ],
)
def test_a_service_does_without_what_its_image_leaves_out(service, used):
    commands = re.findall(r"pip [^&\n]* uninstall --yes ([^&\n]*)", joined(ROOT / "services" / service / "Dockerfile"))
    left_out = {name for command in commands for name in command.split()}
    assert left_out
    modules = [module for module, owners in packages_distributions().items() if left_out & set(owners)]
    program = f"import sys; sys.modules.update(dict.fromkeys({modules!r})); import {used}"
    subprocess.run([sys.executable, "-c", program], check=True)
