"""A trainer over real processes: where OpenRLHF would be started, a shell script of the test stands in."""

import subprocess
from contextlib import ExitStack

import openrlhf_agent
import pytest
from training_platform import TOKEN, Client, Platform

from parallelsearch.schemas.training import LauncherName
from trainer.app import create_app
from trainer.launchers.local import LocalLauncher


@pytest.fixture
def platform(tmp_path):
    return Platform(tmp_path)


@pytest.fixture
def start_trainer(platform):
    """`start_trainer(gpus=1)` gives a client of a running trainer; each call is a new start over the same state."""
    with ExitStack() as stack:

        def start(*, gpus=1, runs_per_gpu=1, launchers=None, token=TOKEN, max_running=1, runs_dir=None, **arguments):
            names = [platform.gpu(n) for n in range(gpus)]
            local = {LauncherName.LOCAL: LocalLauncher(gpus=lambda: names, grace_s=1, runs_per_gpu=runs_per_gpu)}
            changes = {"runs_dir": runs_dir} if runs_dir else {}
            app = create_app(platform.settings(max_running=max_running, **changes), launchers or local, **arguments)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return stack.enter_context(Client(app, headers=headers))

        yield start
    platform.end_runs()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def one_thread():
    """Tiny models are slower with several, and slow where the machine has other work."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=["0.11.2", "0.10.4"])
def openrlhf(request, openrlhf_sources, one_thread):
    """Each version, for tests that run its training code."""
    from openrlhf_training import OpenRLHF

    return OpenRLHF(request.param, openrlhf_sources(request.param))


@pytest.fixture(params=["0.11.2", "0.10.4"])
def agent(request, openrlhf_sources):
    with openrlhf_agent.agent_module(openrlhf_sources(request.param)) as module:
        yield module
