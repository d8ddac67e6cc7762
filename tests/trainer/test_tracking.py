"""The key of W&B reaches the run's processes, and stands in no command and in nothing that is shown."""

import pytest

from parallelsearch.errors import InvalidInput
from parallelsearch.schemas.training import SPEC
from trainer.jobs import JobBuilder
from trainer.launchers.manifests import KubernetesSettings

KEY = "hush-hush"
RUNS = "/v1/training-runs"


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", KEY)


@pytest.mark.usefixtures("key")
def test_a_local_run_has_the_key_in_its_environment_alone(start_trainer, platform):
    platform.does('echo "key $WANDB_API_KEY"; echo "command $*"')
    trainer, spec = start_trainer(), platform.spec(wandb_project="p")
    shown = trainer.post(f"{RUNS}/dry-run", json=spec).text
    run_id = trainer.submit(spec).json()["id"]
    trainer.wait(run_id, "succeeded")
    given, command = trainer.get(f"{RUNS}/{run_id}/logs").text.splitlines()[:2]

    assert given == f"key {KEY}"
    assert "--logger.wandb.project p" in command
    assert KEY not in command + shown + trainer.get(f"{RUNS}/{run_id}").text


def test_without_a_key_a_local_run_is_refused(start_trainer, platform, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    answer = start_trainer().submit(platform.spec(wandb_project="p"))

    assert answer.status_code == 422
    assert "wandb_project" in answer.text
    assert "WANDB_API_KEY" in answer.text


@pytest.mark.usefixtures("key")
def test_pods_have_it_from_a_secret_or_are_refused(platform):
    spec = SPEC.validate_python(platform.spec(wandb_project="p", launcher="kubernetes"))

    def job_with(*secrets):
        pods = KubernetesSettings(image="i", claim="c", mount=platform.folder, secrets=secrets)
        return JobBuilder(platform.settings(kubernetes=pods)).build("run-1", spec)

    with pytest.raises(InvalidInput, match=r"wandb_project: .*TRAINER_KUBERNETES__SECRETS"):
        job_with()
    job = job_with("wandb")
    assert KEY not in " ".join([*job.command, *job.environment.values()])
