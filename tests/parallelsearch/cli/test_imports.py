"""What no command waits for before it starts its own work."""

import subprocess
import sys

PROGRAM = """
import importlib, pkgutil, sys
import parallelsearch.cli
for module in pkgutil.iter_modules(parallelsearch.cli.__path__):
    importlib.import_module(f"parallelsearch.cli.{module.name}")
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
HEAVY = {"aiohttp", "fastapi", "numpy", "openai", "opentelemetry", "pandas", "pyarrow", "redis", "scipy", "torch", "transformers"}


def test_the_command_line_imports_no_engine_no_server_and_no_store():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())
