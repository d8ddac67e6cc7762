"""Runs the five commands that docs/documents.md begins with, over a folder of your own, and writes down what they print.

    .venv/bin/python benchmarks/documents_walkthrough.py docs \
        --query "How is a trajectory stored?" --question "Which port has the gateway, and which the retriever?" \
        --out docs/results/documents_walkthrough.md

Everything runs out of a state folder of its own, on ports from --port on, and is stopped at the end. Exit code 1: a command
failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVICES = ("GATEWAY", "RETRIEVER", "POLICY", "TRAINER")
TIMEOUT_S = 280


def commands() -> list[str]:
    """The first block of docs/documents.md, one command a line."""
    text = (ROOT / "docs" / "documents.md").read_text()
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return block.group(1).strip().splitlines()


def adapted(command: str, args: argparse.Namespace) -> str:
    """The command with the questions asked here, and the port of this gateway."""
    asked = {"How deep is Lake Baikal?": args.query, "Which lake is deeper, Lake Baikal or Lake Tanganyika?": args.question}
    for documented, own in asked.items():
        command = command.replace(documented, own or documented)
    return command.replace(":8080", f":{args.port}")


def run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str, float]:
    started = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stderr + done.stdout, time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--query", help="For search and the chat; default: as documented.")
    parser.add_argument("--question", help="For ask; default: as documented.")
    parser.add_argument("--port", type=int, default=24_080)
    parser.add_argument("--out", type=Path, help="Where the transcript goes, as Markdown; default: it is printed.")
    args = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="documents-walkthrough-") as work:
        shutil.copytree(args.folder, Path(work) / "handbook")
        ports = {f"{name}_PORT": str(args.port + number) for number, name in enumerate(SERVICES)}
        own = {"PARALLELSEARCH_STATE_DIR": f"{work}/state", "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}", "COLUMNS": "120"}
        environment = {**os.environ, **ports, **own}
        try:
            for command in commands():
                shown = adapted(command, args)
                code, said, took_s = run(shown, Path(work), environment)
                said = re.sub(rf"\S*{Path(work).name}/", "", said).rstrip()
                lines.append(f"```\n$ {shown}\n{said}\n```\n\nexit code {code}, {took_s:.1f} s\n")
                if code:
                    break
        finally:
            run("parallelsearch down", Path(work), environment)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    told = f"{datetime.now(UTC):%Y-%m-%d}, commit {commit.strip()}, {os.cpu_count()} cores, no GPU"
    header = f"# From a folder to a cited answer\n\nThe five commands of [documents.md](../documents.md), {told}.\n\n"
    transcript = header + "\n".join(lines)
    if args.out:
        args.out.write_text(transcript)
    else:
        print(transcript)
    sys.exit(1 if code else 0)


if __name__ == "__main__":
    main()
