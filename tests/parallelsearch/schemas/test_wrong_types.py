"""A number is a number and a switch a switch: nothing else is taken for one, on no route that takes a body."""

import pytest
from pydantic import TypeAdapter, ValidationError

from parallelsearch.schemas.answers import AnswerRequest, SearchRequest
from parallelsearch.schemas.chat import ChatRequest, StreamOptions
from parallelsearch.schemas.retrieval import RetrieveRequest
from parallelsearch.schemas.training import ReinforcementSpec, SupervisedSpec, WeightsSpec
from parallelsearch.schemas.weights import WeightsRequest

REQUESTS = (
    AnswerRequest,
    SearchRequest,
    ChatRequest,
    StreamOptions,
    RetrieveRequest,
    WeightsRequest,
    ReinforcementSpec,
    SupervisedSpec,
    WeightsSpec,
)
WRONG = {"number": (True, "1", "0.5", [1], {}), "integer": (True, "1", 1.5, [1], {}), "boolean": (0, 1, "true", "yes", [True])}


def scalars(schema, path=(), definitions=None):
    """The paths to all fields that are numbers or switches, with what they are."""
    definitions = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    kind = schema.get("type")
    if kind in WRONG and not {"const", "enum"} & set(schema):  # of a few values, to Python one of which is true
        yield path, kind
    for name, field in schema.get("properties", {}).items():
        yield from scalars(field, (*path, name), definitions)
    for form in schema.get("anyOf", ()):
        yield from scalars(form, path, definitions)


FIELDS = [(model, path, kind) for model in REQUESTS for path, kind in scalars(TypeAdapter(model).json_schema())]


@pytest.mark.parametrize(("model", "path", "kind"), FIELDS, ids=lambda value: getattr(value, "__name__", None) or str(value))
def test_nothing_else_is_taken_for_a_number_or_a_switch(model, path, kind):
    for value in WRONG[kind]:
        body = value
        for name in reversed(path):
            body = {name: body}
        with pytest.raises(ValidationError) as caught:
            model.model_validate(body)
        named = [fault["loc"] for fault in caught.value.errors() if fault["type"] != "missing"]
        assert any(loc[: len(path)] == path for loc in named), f"{value!r} is taken for {kind} {'.'.join(path)}"


def test_fields_of_all_kinds_are_looked_at():
    assert len(FIELDS) > 40
    assert {kind for _, _, kind in FIELDS} == set(WRONG)
