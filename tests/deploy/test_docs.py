"""What README and docs name exists: files, commands, make targets."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("requirements/*.md")])
COMMAND = re.compile(r"(?:^|\s|`)(?:\.venv/bin/)?parallelsearch ((?:[a-z]+ ?){1,2})")
CODE = re.compile(r"```(?:sh|bash|console)\n(.*?)```", re.DOTALL)


@cache
def help_of(*words):
    return subprocess.run([sys.executable, "-m", "parallelsearch", *words, "--help"], capture_output=True, text=True)


def shell_lines():
    for path in DOCS:
        for block in CODE.findall(path.read_text()):
            for line in block.splitlines():
                yield pytest.param(line, id=f"{path.name}: {line.strip()[:50]}")


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("line", list(shell_lines()))
def test_commands_in_docs_exist(line):
    for target in re.findall(r"(?:^|\s)make (?:[A-Z]+=\S+ )*([a-z][a-z0-9-]*)", line):
        makefile = (ROOT / "Makefile").read_text()
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    for words in COMMAND.findall(line):
        first = words.split()[0]
        assert help_of(first).returncode == 0, f"parallelsearch {first}: {help_of(first).stderr}"
        for option in re.findall(r"(--[a-z][a-z-]+)", line):
            second = words.split()[1] if len(words.split()) > 1 else ""
            listed = help_of(first).stdout + (help_of(first, second).stdout if second else "")
            assert option in listed, f"parallelsearch {words.strip()} has no {option}"
