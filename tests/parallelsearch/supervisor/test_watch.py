"""What is said while a start is waited for."""

import time

import pytest

from parallelsearch.supervisor.snapshot import StepPhase, StepState
from parallelsearch.supervisor.watch import describe_wait


@pytest.fixture
def waiting(tmp_path):
    (tmp_path / "gateway.log").write_text('{"event": "retried"}\n')

    def said(detail):
        step = StepState("gateway", StepPhase.STARTING, time.time() - 3, log=str(tmp_path / "gateway.log"), detail=detail)
        return describe_wait([step])

    return said


@pytest.mark.parametrize("detail", ["", "not listening yet", "no answer (ReadTimeout)", "HTTP 500"])
def test_of_a_service_that_does_not_say_what_it_waits_for_the_log_is_shown(waiting, detail):
    assert waiting(detail) == '  waiting for gateway (3 s) · gateway: {"event": "retried"}'


@pytest.mark.parametrize("status", ["starting", "failed"])
def test_what_a_service_says_that_it_waits_for_is_shown_as_text(waiting, status):
    said = waiting(f"{status}: policy http://127.0.0.1:9: cannot be reached\x1b[2J\n, retriever ok")
    assert said.endswith(f"· gateway: {status}: policy http://127.0.0.1:9: cannot be reached[2J, retriever ok")
