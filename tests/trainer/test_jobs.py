"""The job of a run: what it is laid out with, and its log, on every launcher."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from parallelsearch.schemas.training import SPEC, LauncherName
from trainer.jobs import JobBuilder
from trainer.launchers.interface import with_log


@pytest.mark.parametrize("launcher", LauncherName)
def test_what_a_run_says_is_in_its_log_at_once_wherever_it_runs(platform, launcher):
    job = JobBuilder(platform.settings()).build("run-1", SPEC.validate_python(platform.spec(launcher=launcher)))
    said = [sys.executable, "-c", "import os; print('said'); os.kill(os.getpid(), 9)"]
    job = replace(job, command=tuple(said))
    subprocess.run(with_log(job), env={**os.environ, **job.environment}, capture_output=True, check=False)

    assert job.log.read_text().startswith("said\n")


def test_what_is_laid_out_again_for_a_run_that_may_be_reading_it_is_never_seen_in_part(platform):
    spec, jobs, seen = SPEC.validate_python(platform.spec()), JobBuilder(platform.settings()), set()
    job = jobs.build("run-1", spec)
    jobs.prepare(job, spec)
    with ThreadPoolExecutor(1) as again:
        laying_out = again.submit(lambda: [jobs.prepare(job, spec) for _ in range(100)])
        while not laying_out.done():
            seen |= {(job.folder / name).read_bytes() for name in ("spec.json", "prompts.jsonl")}

    assert len(seen) == 2
