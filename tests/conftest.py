"""What tests of several folders share."""

import pytest
from kube_api_server import kube_api_server


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    """Of a Kubernetes API server with all rights; see kube_api_server."""
    with kube_api_server(tmp_path_factory.mktemp("kubernetes")) as path:
        yield path
