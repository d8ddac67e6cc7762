"""Runs OpenRLHF's own argument parser, validation and all, without what it would train with.

usage: python openrlhf_parser.py SOURCES MODULE ARGUMENT…     prints the parsed arguments as JSON

The `__main__` block of the wheel's own module is executed as it stands; only its imports of ray, torch and the rest of OpenRLHF are
left out, and `train` prints what it is given.
"""

import ast
import importlib.machinery
import json
import sys
import types
from pathlib import Path

LIGHT = {"argparse", "os", "datetime"}


def light_package(name, folder):
    """A package whose modules can be imported without running its `__init__`, which imports DeepSpeed."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    sys.modules[name] = package


def is_light(node):
    match node:
        case ast.Import():
            return all(alias.name in LIGHT for alias in node.names)
        case ast.ImportFrom():
            return node.module in LIGHT
        case ast.FunctionDef(name="train"):
            return False
    return True


def plain(value):
    return {name: plain(inner) for name, inner in vars(value).items()} if hasattr(value, "__dict__") else value


def main(sources, module, *arguments):
    light_package("openrlhf", Path(sources) / "openrlhf")
    light_package("openrlhf.utils", Path(sources) / "openrlhf" / "utils")
    path = Path(sources, *module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if is_light(node)]
    sys.argv = [str(path), *arguments]
    real_stdout, sys.stdout = sys.stdout, sys.stderr
    names = {"__name__": "__main__", "train": lambda args: json.dump(plain(args), real_stdout, default=str)}
    exec(compile(tree, str(path), "exec"), names)


if __name__ == "__main__":
    main(*sys.argv[1:])
