"""Changes over HTTP at their edges: all of an upload or nothing, odd names and places, and work that ends in an odd way."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from document_uploads import ADMIN, upload
from loopback import LoopbackClient

from retriever.app import create_app, open_retriever
from retriever.documents.jobs import DocumentJobs, Job
from retriever.index.staging import only_builder
from retriever.settings import RetrieverSettings


@pytest.fixture
def serving(tmp_path, index_folder):
    settings = RetrieverSettings(index=index_folder, indexes=tmp_path / "indexes", ADMIN_TOKEN="secret")
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        yield client


def remove(client, index, document):
    return client.delete(f"/v1/indexes/{index}/documents/{document}", headers=ADMIN)


@pytest.mark.parametrize("bad", [("a.txt", b"%PDF-1.7"), ("a.txt", b""), ("a.pdf", b"MZ")])
def test_an_upload_with_a_file_that_is_refused_keeps_none_of_its_files(serving, tmp_path, bad):
    uploads = tmp_path / "indexes" / "mine" / "uploads"
    uploads.mkdir(parents=True)
    (uploads / "first.txt").write_text("as it was")
    refused = upload(serving, "mine", ("first.txt", b"another"), ("second.txt", b"new"), bad)
    assert refused.status_code == 415
    assert refused.json()["detail"].startswith(bad[0])
    assert [(path.name, path.read_text()) for path in uploads.iterdir()] == [("first.txt", "as it was")]
    assert serving.get("/v1/indexes/mine").status_code == 404


UPLOADING = """
import sys, time
from pathlib import Path
from retriever.documents.staged import staged

with staged(Path(sys.argv[1])) as (path, file):
    print(path.name, flush=True)
    time.sleep(60)
"""


def test_what_was_being_uploaded_to_a_process_that_was_killed_goes_at_the_next_start(tmp_path, index_folder):
    uploads = tmp_path / "indexes" / "mine" / "uploads"
    uploads.mkdir(parents=True)
    (uploads / "a.txt").write_text("Lake Assal is salty.")
    command = [sys.executable, "-c", UPLOADING, str(uploads)]
    with ExitStack() as processes:
        killed, lives = (processes.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) for _ in range(2))
        processes.callback(lives.kill)
        names = [process.stdout.readline().strip() for process in (killed, lives)]
        killed.kill()
        killed.wait()
        assert {path.name for path in uploads.iterdir()} == {"a.txt", *names}
        settings = RetrieverSettings(index=index_folder, indexes=tmp_path / "indexes", ADMIN_TOKEN="secret")
        with LoopbackClient(create_app(settings, open_retriever(settings))):
            assert {path.name for path in uploads.iterdir()} == {"a.txt", names[1]}


def test_what_is_no_document_cannot_be_removed(serving, tmp_path):
    (tmp_path / "indexes" / "mine" / "uploads" / "folder").mkdir(parents=True)
    for document in ("", "folder", "gone.txt", "%00", "a%2Fb.txt", "..", "%2E%2E%2Fmanifest.json", "%20"):
        answer = remove(serving, "mine", document)
        assert answer.status_code in {404, 405}, (document, answer.text)
    assert (tmp_path / "indexes" / "mine" / "uploads" / "folder").is_dir()


def test_where_a_file_stands_in_the_place_of_an_index_there_is_nothing_to_remove(serving, tmp_path):
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes" / "mine").touch()
    assert remove(serving, "mine", "a.txt").status_code == 404


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="SKIPPED, NOT PASSED: looks for a file that nobody can remove")
def test_a_document_that_cannot_be_removed_is_told_as_one_that_cannot_be_kept(serving, tmp_path):
    (tmp_path / "indexes" / "mine").mkdir(parents=True)
    (tmp_path / "indexes" / "mine" / "uploads").symlink_to("/proc/self")
    answer = remove(serving, "mine", "status")
    assert answer.status_code == 507, answer.text
    assert "status cannot be removed: " in answer.json()["detail"]


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("multipart/form-data", b"xx", "boundary"),
        ("multipart/form-data; boundary=x", b"xx", "multipart"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--\r\n", "name"),
    ],
)
def test_a_form_that_cannot_be_read_is_bad_input_like_any(serving, kind, body, said):
    answer = serving.post("/v1/indexes/mine/documents", content=body, headers={**ADMIN, "content-type": kind})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == "body"
    assert said in answer.json()["detail"]


@asynccontextmanager
async def working(reload, **settings):
    jobs = DocumentJobs(reload, **settings)
    jobs.start()
    yield jobs
    await jobs.stop()


async def settled(jobs, *names):
    until = time.monotonic() + 60
    while any(jobs.state_of(name).state in {"queued", "running"} for name in names):
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("error", [RuntimeError("no room on the GPU"), ValueError("odd file"), MemoryError()])
async def test_whatever_a_reload_raises_the_changes_behind_it_are_made(error):
    served = []

    async def reload(name):
        served.append(name)
        if name == "one":
            raise error

    async with working(reload) as jobs:
        for name in ("one", "two"):
            jobs.add(Job(name, ("--help",)))
        await settled(jobs, "one", "two")
        assert served == ["one", "two"]
        assert [jobs.state_of(name).state for name in served] == ["failed", "done"]
        assert jobs.state_of("one").detail == f"{type(error).__name__}: {error}"


@pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED, NOT PASSED: looks into /proc")
async def test_a_command_that_is_stopped_ends_with_all_it_started(tmp_path):
    async def reload(name):
        pass

    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("A lake. " * 50)
    async with working(reload) as jobs:
        jobs.add(Job("one", ("build", str(folder), "--out", str(tmp_path / "index"))))
        while not children():
            await asyncio.sleep(0.02)
        started = children()
    assert not [process for process in started if Path(f"/proc/{process}").exists()]


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.mark.timeout(240)
async def test_a_change_that_another_build_keeps_off_is_made_when_that_has_ended(tmp_path):
    served = []

    async def reload(name):
        served.append(name)

    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    (folder / "a.txt").write_text("Lake Assal is salty.")
    async with working(reload, busy_s=0.2) as jobs:
        with only_builder(index):
            jobs.add(Job("one", ("sync", str(folder), "--index", str(index), "--encoder", "minilm")))
            until = time.monotonic() + 100
            while "Another build works" not in jobs.state_of("one").detail:
                assert jobs.state_of("one").state in {"queued", "running"} and time.monotonic() < until
                await asyncio.sleep(0.02)
            jobs.add(Job("two", ("--help",)))
            await settled(jobs, "two")
            assert served == ["two"]
        await settled(jobs, "one")
        assert (jobs.state_of("one").state, served) == ("done", ["two", "one"])
