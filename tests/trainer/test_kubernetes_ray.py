"""RayJobs of the kubernetes launcher, over HTTP with a stand-in for an API server that has KubeRay; and what needs no server."""

import uuid

import pytest
from live import live
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from parallelsearch.schemas.training import LauncherName, ResourcesSpec, RunState
from trainer.launchers.interface import Job, LaunchRefused
from trainer.launchers.kubernetes import KubernetesLauncher
from trainer.launchers.manifests import OWNER, RUN_LABEL, KubernetesSettings

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "{url}"}}}}]
contexts: [{{name: test, context: {{cluster: test, user: ""}}}}]
current-context: test
"""


def ray_jobs(kept):
    """The routes of RayJobs of an API server that knows them."""

    async def create(request):
        body = await request.json()
        if body["metadata"]["name"] in kept:
            return JSONResponse({"message": "exists"}, 409)
        kept[body["metadata"]["name"]] = body["metadata"] | {"uid": uuid.uuid4().hex}
        return JSONResponse(body, 201)

    async def one(request):
        metadata = kept.get(request.path_params["name"])
        if metadata is None:
            return JSONResponse({"message": "not found"}, 404)
        if request.method == "DELETE":
            if (await request.json())["preconditions"]["uid"] != metadata["uid"]:
                return JSONResponse({"message": "another one"}, 409)
            del kept[request.path_params["name"]]
        return JSONResponse({"metadata": metadata, "status": {"jobDeploymentStatus": "Running"}})

    path = "/apis/ray.io/v1/namespaces/default/rayjobs"
    return Starlette(routes=[Route(path, create, methods=["POST"]), Route(path + "/{name}", one, methods=["GET", "DELETE"])])


def test_a_ray_job_is_found_again_and_ended_and_one_of_others_is_neither(tmp_path):
    kept, run_id = {}, "run-1"
    job = Job(run_id, ("true",), {}, tmp_path / run_id, ResourcesSpec(nodes=2))
    with live(ray_jobs(kept)) as server:
        (tmp_path / "config").write_text(KUBECONFIG.format(url=server.url))
        launcher = KubernetesLauncher(
            KubernetesSettings(image="trainer:1", claim="runs", mount=tmp_path, kubeconfig=tmp_path / "config")
        )
        handle = launcher.start(job)
        assert launcher.start(job) == handle == "rayjob/run-1"
        assert launcher.status(handle, job).state is RunState.RUNNING
        launcher.cancel("", job)
        assert not kept
        assert "gone" in launcher.status(handle, job).detail

        kept[run_id] = theirs = {"name": run_id, "uid": "theirs", "labels": {**OWNER, RUN_LABEL: "another"}}
        with pytest.raises(LaunchRefused, match="not this run's"):
            launcher.start(job)
        launcher.cancel(handle, job)
        assert kept == {run_id: theirs}
        assert "not this run's" in launcher.status(handle, job).detail


def test_a_run_whose_folder_no_pod_would_have_is_refused(start_trainer, platform):
    config = platform.folder / "config"
    config.write_text(KUBECONFIG.format(url="http://127.0.0.1:1"))
    answers = {}
    for mount in (platform.folder, platform.folder / "elsewhere"):
        settings = KubernetesSettings(image="trainer:1", claim="runs", mount=mount, kubeconfig=config)
        trainer = start_trainer(launchers={LauncherName.KUBERNETES: KubernetesLauncher(settings)})
        answers[mount.name] = trainer.submit(platform.spec(launcher="kubernetes"))

    assert answers[platform.folder.name].status_code == 201
    assert answers["elsewhere"].status_code == 422
    assert "TRAINER_KUBERNETES__MOUNT" in answers["elsewhere"].json()["detail"]
