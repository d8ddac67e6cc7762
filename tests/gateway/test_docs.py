import inspect
import re
from pathlib import Path

from gateway import metrics
from gateway.app import create_app
from gateway.mcp_endpoint import McpEndpoint
from gateway.settings import GatewaySettings
from parallelsearch.errors import ConfigurationError, CorpusError, IndexMismatch, ParallelSearchError

API = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def test_every_route_is_documented():
    for path in create_app(GatewaySettings()).openapi()["paths"]:
        assert path.split("/{")[0] in API or path.removeprefix("/") in API, f"{path} is not in docs/api.md"


def test_the_tools_are_documented_with_what_they_take():
    for tool in (McpEndpoint.answer, McpEndpoint.search):
        taken = ", ".join(f"`{name}`" for name in inspect.signature(tool).parameters if name not in {"self", "context"})
        assert f"`{tool.__name__}` ({taken})" in API


def test_every_metric_is_documented_and_every_documented_one_exists():
    source = (Path(metrics.__file__)).read_text()
    documented = set(re.findall(r"`(parallelsearch_[a-z_]+)`", API.split("## Metrics")[1].split("## Settings")[0]))
    assert documented == set(re.findall(r'"(parallelsearch_[a-z_]+)"', source))


def test_every_problem_that_a_caller_may_get_is_documented_with_its_status():
    table = API.split("## Errors")[1].split("## ")[0]
    documented = {
        (code, int(status)) for status, codes in re.findall(r"^\| (\d+) \| ([^|]+) \|", table, re.M) for code in _words(codes)
    }
    ours = {(kind.code, kind.status) for kind in _kinds(ParallelSearchError) if kind not in AT_START}
    http = {("method-not-allowed", 405), ("content-too-large", 413)}
    assert documented == ours | http


AT_START = {ConfigurationError, IndexMismatch, CorpusError}
"""Why a service does not start, or a corpus is not built."""


def _kinds(kind):
    return {kind}.union(*map(_kinds, (each for each in kind.__subclasses__() if each.__module__ == kind.__module__)))


def _words(cell):
    return re.findall(r"`([a-z-]+)`", cell)
