"""What a failed run says of its end: the lines of its log as a terminal shows them, and the error they name."""

import time

import pytest

from trainer.last_words import LONGEST, LONGEST_LINE, MEMORY_ADVICE, named_error, shown

NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."
RAY_LOG = f"""\x1b[36m(PolicyModelActor pid=8099)\x1b[0m forward:  50%|\r\x1b[36m(PolicyModelActor pid=8099)\x1b[0m forward: 100%|
\x1b[36m(PolicyModelActor pid=8099)\x1b[0m Traceback (most recent call last):
\x1b[36m(PolicyModelActor pid=8099)\x1b[0m   File "policy.py", line 3, in fit
\x1b[36m(PolicyModelActor pid=8099)\x1b[0m {NO_MEMORY}
Traceback (most recent call last):
ray.exceptions.RayTaskError(OutOfMemoryError): ray::PolicyModelActor.fit() (pid=8099, ip=127.0.0.1)
{NO_MEMORY}
\x1b[33m(raylet)\x1b[0m A worker died.
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
"""


def test_lines_are_what_a_terminal_shows_of_them():
    assert shown(b"one\rtwo\r\n\x1b[36m(A pid=1)\x1b[0m three\r\xff\r\n\n four\n") == ["two", "\ufffd", " four"]
    assert shown(RAY_LOG.encode())[0] == "(PolicyModelActor pid=8099) forward: 100%|"


def test_of_a_progress_bar_its_last_state_is_kept():
    bar = "(PPOTrainer pid=7) Generate samples: {0:3}%|{1}| {0}/100 [00:03<00:02]\x1b[A\n(PPOTrainer pid=7) \n"
    other = "(PPOTrainer pid=7) forward:  50%|##| 1/2\n"
    log = "".join(bar.format(done, "#" * done) for done in (0, 50, 100)) + other + bar.format(0, "") + "done\n"
    kept = [line.split("|")[0] for line in shown(log.encode())]
    of = "(PPOTrainer pid=7) "
    assert kept == [f"{of}Generate samples: 100%", f"{of}forward:  50%", f"{of}Generate samples:   0%", "done"]


@pytest.mark.parametrize(
    "part", [" ", "\t", "0", "0%", "0 ", "(", "(a)", "(pid=", "\x1b[", "\x1b[0", "a.", "Aa.", "A", "\x00", "Error: "]
)
def test_a_line_of_any_length_is_shown_cut_and_at_once(part):
    """Whoever waits for it holds up all other runs."""
    started = time.monotonic()
    lines = shown(f"begun\n(a pid=1) {part * (64_000 // len(part))}.\n".encode())
    named_error(lines)

    assert time.monotonic() - started < 2
    assert lines[0] == "begun" and len(lines) < 3
    assert max(map(len, lines)) <= LONGEST_LINE


def test_an_error_of_a_process_itself_is_told_before_the_end_of_others():
    assert named_error(shown(RAY_LOG.encode())) == f"{NO_MEMORY} {MEMORY_ADVICE}"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ValueError: no question in row 3", "ValueError: no question in row 3"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("(RolloutRayActor pid=5, ip=10.0.0.2) httpx.ConnectError: refused", "httpx.ConnectError: refused"),
        ("(WorkerDict(rank=0) pid=5) RuntimeError: boom", "RuntimeError: boom"),
        (
            "(RolloutRayActor pid=5) (EngineCore pid=6) ERROR 11-29 08:55:02 [core.py:1100] ValueError: no room",
            "ValueError: no room",
        ),
        ("ray.exceptions.ActorDiedError: it died", "ray.exceptions.ActorDiedError: it died"),
        ("    raise ValueError: no", ""),
        ("INFO Error: 3 of 4", ""),
        ("Error handling is on", ""),
        ("mean error: 0.3", ""),
        ("", ""),
    ],
)
def test_only_errors_that_python_names_count(line, told):
    assert named_error(["begun", line, "ended"]) == told


def test_a_long_error_is_cut():
    told = named_error(["ValueError: " + "x" * 10_000])
    assert len(told) == LONGEST and told.endswith("…")


def test_a_failed_run_names_the_error_in_its_log_however_far_from_its_end(start_trainer, platform):
    platform.does("echo 'ValueError: no such column'; for i in $(seq 80); do echo line $i; done; exit 1")
    trainer = start_trainer()
    run = trainer.wait(trainer.submit(platform.spec()).json()["id"], "failed")

    assert run["detail"] == "The run ended with exit code 1. In its log: ValueError: no such column"
    assert run["last_log_lines"][0] == "line 31"
