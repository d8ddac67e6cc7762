"""What tests of several folders share. Imports wait: some folders are run on machines that hold less than the whole environment."""

import gc
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure():
    """A shell that runs us in the background has us ignore SIGINT, and so would all that the tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays until the end, and no collection of garbage need look through it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    """Of a Kubernetes API server with all rights; see kube_api_server."""
    from kube_api_server import kube_api_server

    with kube_api_server(tmp_path_factory.mktemp("kubernetes")) as path:
        yield path


@pytest.fixture(scope="session")
def openrlhf_sources():
    """`openrlhf_sources(version)` is the folder of that wheel's Python files, fetched once into the git-ignored `.envs`."""
    from trainer import environments

    def find(version):
        try:
            return environments.sources(version, ROOT / environments.FOLDER)
        except subprocess.CalledProcessError:
            pytest.skip(f"OpenRLHF {version} is not there and cannot be fetched from the package index")

    return find
