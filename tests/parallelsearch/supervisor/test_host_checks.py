"""What is said of a machine that lacks something."""

import os
import socket

import pytest

from parallelsearch.supervisor import host_checks
from parallelsearch.supervisor.findings import Level
from parallelsearch.supervisor.settings import Endpoint


@pytest.mark.parametrize(
    ("version", "level"), [((3, 10), Level.PROBLEM), ((3, 11), Level.OK), ((3, 12), Level.OK), ((3, 13), Level.PROBLEM)]
)
def test_only_the_supported_pythons_are_fine(version, level):
    assert host_checks.check_python(version).level is level


def test_too_little_disk_says_where_and_how_much(tmp_path):
    found = host_checks.check_disk(tmp_path / "not" / "there" / "yet", 10**9)
    assert found.level is Level.PROBLEM
    assert str(tmp_path) in found.text
    assert host_checks.check_disk(tmp_path, 0).level is Level.OK


@pytest.mark.parametrize(
    ("available", "needed", "level"),
    [(4.0, 5.0, Level.PROBLEM), (6.0, 5.0, Level.NOTE), (9.0, 5.0, Level.OK), (1.0, 1.5, Level.PROBLEM), (2.0, 1.5, Level.OK)],
)
def test_memory_is_a_problem_only_when_the_platform_would_not_fit(available, needed, level):
    assert host_checks.check_memory(available, needed).level is level


def test_a_containers_limit_counts(tmp_path):
    (tmp_path / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.current").write_text("1500000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000000\ninactive_file 500000000\n")
    assert host_checks.available_memory_gb(tmp_path) <= 2.0
    (tmp_path / "memory.max").write_text("max\n")
    assert host_checks.available_memory_gb(tmp_path) > 0


def test_a_taken_port_says_by_whom_and_which_variable_moves_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (found,) = host_checks.check_ports([("gateway", Endpoint("127.0.0.1", port))])
    assert found.level is Level.PROBLEM
    assert f"process {os.getpid()} (" in found.text
    assert "GATEWAY_PORT=" in found.remedy
    (found,) = host_checks.check_ports([("gateway", Endpoint("127.0.0.1", port))])
    assert found.level is Level.OK


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid", "a" * 70 + ".example", "two words", "[::1]"])
def test_an_address_that_is_none_of_this_machine_is_not_said_to_be_taken(host):
    (found,) = host_checks.check_ports([("gateway", Endpoint(host, 18_080))])
    assert found.level is Level.PROBLEM
    assert f"cannot listen on {host}" in found.text
    assert "taken" not in found.text
    assert "GATEWAY_HOST" in found.remedy


@pytest.mark.parametrize("port", range(65_530, 65_536))
def test_the_port_that_is_proposed_is_a_port(port):
    try:
        server = socket.create_server(("127.0.0.1", port))
    except OSError:
        pytest.skip("somebody listens there")
    with server:
        (found,) = host_checks.check_ports([("gateway", Endpoint("127.0.0.1", port))])
    assert 1 <= int(found.remedy.rpartition("=")[2]) <= 65_535
