"""The pod of a training run, as the trainer makes it, run by Docker up to the point where OpenRLHF has read its arguments."""

import json

import pytest
from compose_platform import ROOT, docker, require_engine
from training_platform import prompt_row

from parallelsearch.schemas.training import SPEC
from trainer.jobs import JobBuilder
from trainer.launchers.manifests import KubernetesSettings, job_manifest
from trainer.settings import TrainerSettings

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]
IMAGE = "parallelsearch/training-run-stand-in"
SPECIFICATION = {"kind": "reinforcement", "name": "small", "model": "small", "data": "train.jsonl", "launcher": "kubernetes"}


@pytest.fixture(scope="module")
def image(openrlhf_sources):
    require_engine()
    here = ROOT / "tests"
    contexts = {"openrlhf": openrlhf_sources("0.11.2"), "support": here / "support", "stand-ins": here / "compose" / "stand-ins"}
    given = [part for name, folder in contexts.items() for part in ("--build-context", f"{name}={folder}")]
    file = contexts["stand-ins"] / "training-run.Dockerfile"
    docker("buildx", "build", "--quiet", "--network", "none", *given, "--file", str(file), "--tag", IMAGE, str(ROOT), timeout_s=300)
    return IMAGE


@pytest.fixture
def volumes(tmp_path):
    """Claim by claim what the pod mounts; the user of the pod may write where the group of a claim would let it."""
    for name in ("runs", "hub/small", "data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "hub" / "small" / "config.json").write_text("{}")
    (tmp_path / "data" / "train.jsonl").write_text(prompt_row("train"))
    return tmp_path


def run_pod(pod, volumes):
    """`docker run` with all that the manifest says of the container and that Docker knows."""
    (container,) = pod["containers"]
    user, closed = pod["securityContext"], container["securityContext"]
    claims = {volume["name"]: volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume}
    options = ["--user", f"{user['runAsUser']}:{user['runAsGroup']}", "--network", "none"]
    options += [part for capability in closed["capabilities"]["drop"] for part in ("--cap-drop", capability)]
    options += ["--security-opt", f"no-new-privileges:{json.dumps(not closed['allowPrivilegeEscalation'])}"]
    options += [part for variable in container["env"] for part in ("--env", f"{variable['name']}={variable['value']}")]
    for mount in container["volumeMounts"]:
        if mount["name"] in claims:
            how = "ro" if mount.get("readOnly") else "rw"
            options += ["--volume", f"{volumes / claims[mount['name']]['claimName']}:{mount['mountPath']}:{how}"]
    entry, *arguments = container["command"]
    return docker("run", "--rm", *options, "--entrypoint", entry, container["image"], *arguments, timeout_s=120)


def test_openrlhf_reads_the_arguments_of_a_job_in_its_pod(image, volumes, monkeypatch):
    settings = KubernetesSettings(image=image, claim="runs", mount="/runs", inputs={"hub": "/hub", "data": "/data"})
    # The paths of the pod, as the trainer's own pod has them too.
    here = TrainerSettings(
        runs_dir=volumes / "runs", model_roots=(volumes / "hub",), data_roots=(volumes / "data",), kubernetes=settings
    )
    spec, jobs = SPEC.validate_python(SPECIFICATION), JobBuilder(here)
    job = jobs.build("run-1", spec)
    jobs.prepare(job, spec)
    for path in [volumes / "runs", *(volumes / "runs").rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    pod = json.loads(json.dumps(job_manifest(job, settings)["spec"]["template"]["spec"]).replace(f"{volumes}/", "/"))
    written = run_pod(pod, volumes)

    assert (volumes / "runs" / "run-1" / "output.log").read_text().strip() == written
    read = json.loads(written.splitlines()[-1])
    assert read["actor"]["model_name_or_path"] == "/hub/small"
    assert read["data"]["prompt_dataset"] == "/runs/run-1/prompts.jsonl"
    agent = read["train"]["agent_func_path"]
    assert docker("run", "--rm", "--entrypoint", "ls", image, agent) == agent
