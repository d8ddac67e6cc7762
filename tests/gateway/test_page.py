import re

from gateway_fakes import fake_policy, fake_retriever

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


def assets_of(client):
    return re.findall(r'(?:src|href)="(/assets/[^"]+)"', client.get("/").text)


def test_the_page_and_its_assets_come_under_a_strict_policy(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever({}))
    assets = assets_of(client)
    assert len(assets) == 2
    for path in ["/", *assets]:
        response = client.get(path)
        assert response.status_code == 200
        directives = dict(part.split(" ", 1) for part in response.headers["content-security-policy"].split("; "))
        assert directives == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"


def test_assets_are_kept_for_ever_and_the_page_is_asked_for_anew(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever({}))
    page = client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert all("immutable" in client.get(path).headers["cache-control"] for path in assets_of(client))


def test_the_whole_page_stays_below_150_kb_compressed_and_names_no_other_host(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever({}))
    total = 0
    for path in ["/", *assets_of(client)]:
        response = client.get(path, headers={"Accept-Encoding": "gzip"})
        assert response.headers["content-encoding"] == "gzip"
        total += int(response.headers["content-length"])
        hosts = set(re.findall(r"https?://([a-z0-9.-]+\.[a-z]+)", response.text))
        assert hosts <= {"www.w3.org"}  # names of XML namespaces, which nobody fetches
    assert total < 150_000


def test_a_file_that_the_page_has_not_is_a_problem(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever({}))
    response = client.get("/assets/..%2Fapp.py")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_examples_are_questions_of_every_kind(start_gateway):
    examples = start_gateway(fake_policy([]), fake_retriever({})).get("/v1/examples").json()["examples"]
    assert {example["kind"] for example in examples} == {"parallel", "sequential", "hybrid", "single"}
    assert all(example["question"].endswith("?") for example in examples)


def test_the_documentation_s_page_may_run_only_scripts_of_this_host(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever({}))
    for path, inline in (("/docs", True), ("/openapi.json", False)):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert ("script-src 'self' 'unsafe-inline'" in policy) is inline
        assert "http" not in policy
