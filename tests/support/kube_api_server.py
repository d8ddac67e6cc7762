"""A Kubernetes API server on loopback: it admits, validates and stores; no controller and no kubelet, so no pod starts.

The tests start one of their own (etcd and kube-apiserver in the PATH, or KUBE_APISERVER naming the program), or use the cluster of
PARALLELSEARCH_KUBECONFIG. Without either they are skipped, and say so.
"""

import lzma
import os
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from service_stand_ins import free_port
from shared_data import shared_folder

PACKED = "tools/kube-apiserver-1.20.2.xz"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "{url}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: {token}}}}}]
contexts: [{{name: test, context: {{cluster: test, user: admin}}}}]
current-context: test
"""


@contextmanager
def kube_api_server(folder: Path):
    """Yields the path of a kubeconfig with all rights."""
    given = os.environ.get("PARALLELSEARCH_KUBECONFIG")
    if given:
        yield Path(given)
        return
    etcd, program = shutil.which("etcd"), _program(folder)
    if etcd is None or program is None:
        pytest.skip(
            "SKIPPED, NOT PASSED: a Kubernetes API server needs etcd and kube-apiserver in the PATH, or PARALLELSEARCH_KUBECONFIG"
        )
    token, store, peer, port = secrets.token_hex(8), free_port(), free_port(), free_port()
    (folder / "tokens.csv").write_text(f"{token},admin,1,system:masters\n")
    key = folder / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    client, url = f"http://127.0.0.1:{store}", f"https://127.0.0.1:{port}"
    commands = {
        "etcd": (
            etcd,
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        ),
        "api": (
            program,
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder}/certificates",
            "--advertise-address=192.0.2.1",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://test",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
        ),
    }
    running = {}
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("w") as log:
                running[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        _wait(url, token, running, folder)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(url=url, token=token))
        yield kubeconfig
    finally:
        for process in reversed(running.values()):
            process.terminate()
            process.wait(30)
    assert "Observed a panic" not in (folder / "api.log").read_text()


def _program(folder: Path) -> str | None:
    found = os.environ.get("KUBE_APISERVER") or shutil.which("kube-apiserver")
    shared = shared_folder()
    if found or shared is None or not (shared / PACKED).is_file():
        return found
    program = folder / "kube-apiserver"
    with lzma.open(shared / PACKED) as packed, program.open("wb") as file:
        shutil.copyfileobj(packed, file)
    program.chmod(0o755)
    return str(program)


def _wait(url: str, token: str, running: dict, folder: Path) -> None:
    """Never with the name of curl: for that user agent the server lays JSON out prettily. A 1.20 built with a Go after 1.17 breaks
    every type of map that it has laid out so: its reflect2 calls mapiterinit without the iterator that this takes since then.
    """
    request = urllib.request.Request(f"{url}/readyz", headers={"authorization": f"Bearer {token}"})
    unverified = ssl._create_unverified_context()
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5, context=unverified):
                return
        except (urllib.error.URLError, OSError):
            ended = [name for name, process in running.items() if process.poll() is not None]
            assert not ended and time.monotonic() < until, (folder / f"{(ended or ['api'])[0]}.log").read_text()[-2000:]
            time.sleep(0.2)
