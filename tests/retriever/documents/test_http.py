"""Documents over HTTP: taken in, indexed, told, removed; refused by name, by content and by token."""

import pytest
from document_files import write_pdf
from document_uploads import ADMIN, settled, upload
from live_retriever import live_retriever
from loopback import LoopbackClient
from typer.testing import CliRunner

from retriever.app import create_app, open_retriever
from retriever.commands import app as commands
from retriever.settings import RetrieverSettings


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    return tmp_path_factory.mktemp("indexes")


@pytest.fixture(scope="module")
def serving(indexes, index_folder):
    own = {"ADMIN_TOKEN": "secret", "max_body_bytes": 1_000_000, "serve_uploads": True}
    with live_retriever(index=index_folder, indexes=indexes, **own) as client:
        yield client


@pytest.mark.timeout(240)
def test_documents_are_uploaded_searched_replaced_and_removed(serving, indexes, tmp_path):
    pdf = write_pdf(tmp_path / "a.pdf", ["Lake Baikal is 1642 metres deep.", "It lies in Siberia."]).read_bytes()
    locked = write_pdf(tmp_path / "b.pdf", ["x"], password="x").read_bytes()
    accepted = upload(serving, "mine", ("lakes.pdf", pdf), ("notes.md", b"# Notes\nSalt lakes are salty."), ("locked.pdf", locked))
    assert accepted.status_code == 202, accepted.text
    assert accepted.json()["documents"] == ["lakes.pdf", "notes.md", "locked.pdf"]
    status = settled(serving, "mine")
    assert status["work"] == {"state": "done", "detail": ""}
    assert status["index"]["documents"] == status["total"] == 3
    assert {each["source"]: each["state"] for each in status["documents"]} == {
        "lakes.pdf": "indexed",
        "locked.pdf": "unreadable",
        "notes.md": "indexed",
    }
    found = serving.post("/v1/retrieve", json={"queries": ["How deep is Baikal?"], "top_k": 1, "index": "mine"}).json()
    assert found["results"][0][0]["metadata"]["page"] == 1
    assert serving.delete("/v1/indexes/mine/documents/notes.md", headers=ADMIN).status_code == 202
    assert [each["source"] for each in settled(serving, "mine")["documents"]] == ["lakes.pdf", "locked.pdf"]
    assert sorted(path.name for path in (indexes / "mine" / "uploads").iterdir()) == ["lakes.pdf", "locked.pdf"]
    assert serving.delete("/v1/indexes/mine/documents/notes.md", headers=ADMIN).status_code == 404


@pytest.mark.parametrize(("place", "reason"), [("/proc/parallelsearch", "No such file or directory"), (None, "Not a directory")])
def test_a_place_that_cannot_be_written_to_is_named(index_folder, tmp_path, place, reason):
    folder = place or tmp_path / "file"
    settings = RetrieverSettings(index=index_folder, indexes=folder, ADMIN_TOKEN="secret")
    with LoopbackClient(create_app(settings, open_retriever(settings)), raise_server_exceptions=False) as client:
        (tmp_path / "file").touch()
        refused = upload(client, "mine", ("notes.md", b"Salt lakes are salty."))
        assert refused.status_code == 507, refused.text
        assert f"{folder}/mine/uploads: {reason}" in refused.json()["detail"]
        assert "RETRIEVER_INDEXES" in refused.json()["detail"]
        assert client.get("/v1/indexes/mine").status_code == 404


HOSTILE = b"<title>Assal</title><script>alert(1)</script><p>Lake Assal lies in Djibouti.</p>"


@pytest.mark.timeout(240)
def test_the_original_of_an_upload_is_given_out_to_be_saved_where_a_setting_says_so(serving, indexes, index_folder, tmp_path):
    pdf = write_pdf(tmp_path / "a.pdf", ["A cover.", "Lake Baikal is 1642 metres deep."]).read_bytes()
    upload(serving, "kept", ("lake ü.pdf", pdf), ("page.html", HOSTILE))
    settled(serving, "kept")
    (tmp_path / "elsewhere.txt").write_text("Lake Chad is shallow.")
    added = CliRunner().invoke(commands, ["add", str(tmp_path / "elsewhere.txt"), "--index", str(indexes / "kept")])
    assert added.exit_code == 0
    assert serving.post("/v1/indexes/kept/reload", headers=ADMIN).status_code == 200

    def address(client, query):
        rows = client.post("/v1/retrieve", json={"queries": [query], "top_k": 1, "index": "kept"}).json()["results"]
        return rows[0][0]["url"]

    url = address(serving, "How deep is Baikal?")
    assert url == "/v1/indexes/kept/documents/lake%20%C3%BC.pdf/content#page=2"
    assert address(serving, "Lake Chad") == ""
    for path, kind, body in ((url, "application/pdf", pdf), (address(serving, "Assal"), "text/plain; charset=utf-8", HOSTILE)):
        response = serving.get(path)
        assert (response.status_code, response.headers["content-type"], response.content) == (200, kind, body)
        assert response.headers["content-disposition"].startswith("attachment; filename")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]
    (indexes / "kept" / "uploads" / "page.html").unlink()
    (indexes / "kept" / "uploads" / "page.html").symlink_to(tmp_path / "elsewhere.txt")
    for gone in ("page.html", "elsewhere.txt", "nothing.md", "..%2Fmanifest.json", "%2Fetc%2Fpasswd"):
        assert serving.get(f"/v1/indexes/kept/documents/{gone}/content").status_code == 404, gone
    closed = RetrieverSettings(index=index_folder, indexes=indexes)
    with LoopbackClient(create_app(closed, open_retriever(closed))) as client:
        assert address(client, "How deep is Baikal?") == ""
        refused = client.get(url)
        assert (refused.status_code, "RETRIEVER_SERVE_UPLOADS is off" in refused.json()["detail"]) == (404, True)


def test_uploads_need_the_admin_token(serving, indexes):
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert upload(serving, "other", ("a.txt", b"x"), headers=headers).status_code == 401
        assert serving.delete("/v1/indexes/other/documents/a.txt", headers=headers).status_code == 401
    assert not (indexes / "other").exists()


@pytest.mark.parametrize(
    ("file", "status", "said"),
    [
        (("page.exe", b"x"), 415, "is not read"),
        (("a.pdf", b"MZ not a pdf"), 415, "is no PDF"),
        (("a.md", b"PK\x03\x04"), 415, "is a zip archive"),
        (("a.txt", b""), 415, "is empty"),
        (("../a.txt", b"x"), 422, "without slashes"),
        ((".hidden.txt", b"x"), 422, "not hidden"),
        (("x" * 300 + ".txt", b"x"), 422, "at most 200 bytes"),
        (("big.txt", b"x" * 2_000_000), 413, "larger than"),
    ],
)
def test_what_is_no_document_is_refused_and_leaves_nothing(serving, indexes, file, status, said):
    response = upload(serving, "refused", file)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert said in response.json()["detail"]
    left = indexes / "refused" / "uploads"
    assert not left.exists() or not list(left.iterdir())
    assert serving.get("/v1/indexes/refused").status_code == 404


def test_an_index_of_passages_and_a_name_that_is_none_are_refused(serving):
    assert upload(serving, "default", ("a.txt", b"x")).status_code == 409
    assert upload(serving, "bad name", ("a.txt", b"x")).status_code == 422
    assert upload(serving, "..", ("a.txt", b"x")).status_code in {404, 405, 422}
    assert serving.get("/v1/indexes/default").json()["index"]["documents"] is None
