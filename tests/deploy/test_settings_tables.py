"""The tables of settings and of request fields in the documents say what the code has: names, defaults and limits."""

import re
from enum import Enum

import pytest
from deployed import ROOT
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from gateway.settings import GatewaySettings
from parallelsearch.schemas.answers import AnswerRequest
from parallelsearch.supervisor.settings import DEFAULT_PORTS
from policy.settings import CacheSettings, PolicySettings
from retriever.settings import RetrieverSettings
from servicekit.settings import ServiceSettings
from trainer.settings import TrainerSettings

SERVICES = {"gateway": GatewaySettings, "retriever": RetrieverSettings, "policy": PolicySettings, "trainer": TrainerSettings}
TABLES = {
    "api.md": [GatewaySettings],
    "retriever.md": [RetrieverSettings],
    "policy.md": [PolicySettings, CacheSettings],
    "trainer.md": [TrainerSettings],
}
NO_PREFIX = "(no prefix)"


def text_of(name):
    return (ROOT / "docs" / name).read_text()


def rows_of(name, first):
    """The cells of each row of the tables whose first column has this title."""
    found, inside = [], False
    for line in text_of(name).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells or cells[0] == first:
            inside = bool(cells)
        elif inside and not set(cells[0]) <= {"-"}:
            found.append(cells)
    return found


def variables_of(settings):
    """From the names of its variables, the first and its further ones, to its field."""
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        alias = field.validation_alias
        for variable in [prefix + name.upper()] if alias is None else [alias] if isinstance(alias, str) else alias.choices:
            yield variable, name, field


def plain(default):
    """A default as a table would write it; None where there is no value to write."""
    if default in (None, "", PydanticUndefined) or isinstance(default, SecretStr):
        return None
    if isinstance(default, bool | list):
        return str(default).lower()
    if isinstance(default, Enum):
        return default.value
    if isinstance(default, float):
        return f"{default:g}"
    return ":".join(map(str, default)) if isinstance(default, tuple) else str(default)


def documented(cell, count):
    """What the column of defaults says of each of `count` variables: one for all, or one each."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", cell).replace("`", "")
    parts = text.split(", ") if count > 1 and ", " in text else [text] * count
    assert len(parts) == count, f"{cell!r} gives {len(parts)} defaults to {count} variables"
    return [re.sub(r" \(\w+\)$", "", part) for part in parts]


def agrees(said, default):
    if default is None:
        return not re.fullmatch(r"-?[\d.]+|true|false", said)
    if said == "loopback":
        return "127.0.0.1" in default
    return said == default


@pytest.mark.parametrize("document", TABLES)
def test_documented_defaults_are_those_of_the_settings(document):
    known = {variable: field for settings in TABLES[document] for variable, _, field in variables_of(settings)}
    prefix = TABLES[document][0].model_config["env_prefix"]
    checked = 0
    for names, default, *_ in rows_of(document, "variable" if document == "api.md" else "setting"):
        spelt = spelt_out(names, prefix if document == "api.md" else "")
        for name, said in zip(spelt, documented(default, len(spelt)), strict=True):
            assert name in known, f"{name} of docs/{document} is no setting"
            assert agrees(said, plain(known[name].default)), f"{name}: documented {said!r}, is {known[name].default!r}"
            checked += 1
    assert checked >= 15


def spelt_out(names, prefix):
    """The variables of a cell in full; `A`, `B` (no prefix), said once at the end, holds for all of the cell."""
    if names.endswith(NO_PREFIX):
        names = re.sub(r"`,", f"` {NO_PREFIX},", names)
    return [name if NO_PREFIX in rest else prefix + name for name, rest in re.findall(r"`([A-Z_]+)`([^`]*)", names)]


@pytest.mark.parametrize("document", TABLES)
def test_every_setting_stands_in_its_table(document):
    common = set(ServiceSettings.model_fields) - {"host", "port"}
    table = " ".join(cells[0] for cells in rows_of(document, "variable" if document == "api.md" else "setting"))
    for settings in TABLES[document]:
        named = {name: [] for name in settings.model_fields if document == "api.md" or name not in common}
        for variable, name, _ in variables_of(settings):
            spelt = {variable, variable.removeprefix("GATEWAY_") if document == "api.md" else variable}
            named.get(name, []).extend(f"`{each}`" in table for each in spelt)
        assert not [name for name, found in named.items() if not any(found)], f"these are not in docs/{document}"


@pytest.mark.parametrize(("service", "settings"), SERVICES.items())
def test_the_platform_starts_each_service_on_its_own_port(service, settings):
    assert DEFAULT_PORTS[service] == settings.model_fields["port"].default
    ports = next(cells for cells in rows_of("cli.md", "variable") if f"`{service.upper()}_PORT`" in cells[0])
    names = re.findall(r"`(\w+)`", ports[0])
    assert documented(ports[1], len(names))[names.index(f"{service.upper()}_PORT")] == str(DEFAULT_PORTS[service])
    hosts = next(cells for cells in rows_of("cli.md", "variable") if f"`{service.upper()}_HOST`" in cells[0])
    assert hosts[1] == settings.model_fields["host"].default


def test_defaults_named_in_sentences_are_those_of_the_settings():
    known = {variable: field for settings in SERVICES.values() for variable, _, field in variables_of(settings)}
    found = []
    for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        text = path.read_text()
        found += [(name, number) for number, name in re.findall(r"([\d.]+) s \(`([A-Z_]+)`\)", text)]
        found += re.findall(r"`([A-Z_]+)` \(([\d.]+) s\)", text)
    assert len(found) >= 3
    for name, number in found:
        assert known[name].default == float(number), name


def test_documented_fields_of_an_answer_have_the_defaults_and_limits_of_the_request():
    rows = rows_of("api.md", "field")
    seen = set()
    for names, default, words, *_ in rows:
        fields = re.findall(r"`(\w+)`", names)
        for name, said in zip(fields, documented(default, len(fields)), strict=True):
            field = AnswerRequest.model_fields[name]
            assert said == ("required" if field.is_required() else plain(field.default) or "null"), name
            limits = {type(each).__name__: getattr(each, type(each).__name__.lower(), None) for each in field.metadata}
            if spread_of := re.search(r"([\d,]+) to ([\d,]+)", words):
                low, high = (int(number.replace(",", "")) for number in spread_of.groups())
                assert (limits.get("Ge", low), limits.get("Le", high)) == (low, high), name
            if upper := re.search(r"up to (\d+)", words):
                assert limits["Le"] == int(upper[1]), name
        seen.update(fields)
    assert seen == set(AnswerRequest.model_fields)
