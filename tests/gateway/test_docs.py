import re
from pathlib import Path

from gateway import metrics
from gateway.app import create_app
from gateway.settings import GatewaySettings

API = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def test_every_route_is_documented():
    for path in create_app(GatewaySettings()).openapi()["paths"]:
        assert path.split("/{")[0] in API or path.removeprefix("/") in API, f"{path} is not in docs/api.md"


def test_every_metric_is_documented_and_every_documented_one_exists():
    source = (Path(metrics.__file__)).read_text()
    documented = set(re.findall(r"`(parallelsearch_[a-z_]+)`", API.split("## Metrics")[1].split("## Settings")[0]))
    assert documented == set(re.findall(r'"(parallelsearch_[a-z_]+)"', source))
