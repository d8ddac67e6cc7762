"""What a service refuses as the caller's input names the field: `InvalidInput` begins with it, from which `errors` is made."""

import ast
import re

import pytest
from deployed import ROOT

COMMANDS = ("trainer/data/", "trainer/prepare.py")
"""What a person types; there is no field."""
MODULES = [path for path in sorted(ROOT.glob("services/*/src/**/*.py")) if not any(part in path.as_posix() for part in COMMANDS)]


def begins(message):
    """How the text begins, as far as the source says; `{name}` for what is filled in."""
    if isinstance(message, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}" for part in message.values
        )
    return message.value if isinstance(message, ast.Constant) else ast.unparse(message)


def refusals():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InvalidInput" and node.args:
                yield f"{path.stem}:{node.lineno}", begins(node.args[0])


@pytest.mark.parametrize(("place", "text"), list(refusals()))
def test_a_refusal_begins_with_its_field(place, text):
    assert re.match(r"([A-Za-z][\w.-]*|\{field\}): ", text), f"{place}: {text}"
