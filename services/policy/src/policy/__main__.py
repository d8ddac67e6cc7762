"""Entry point: `python -m policy` serves, `python -m policy prepare` only merges the bundled policy into the cache folder.

Heavy imports (torch, transformers, vLLM) wait until the settings have been found sound.
"""

from __future__ import annotations

import sys

from parallelsearch.errors import ConfigurationError


def prepare_bundled() -> None:
    from policy.bundle import bundled_policy
    from policy.merging import merge
    from policy.preparation import prepare
    from policy.settings import CacheSettings

    prepare(bundled_policy(), CacheSettings().models_dir, merge=merge)


def serve() -> None:
    from policy.serving import serve as serve_policy
    from policy.settings import CacheSettings, PolicySettings
    from servicekit.settings import load

    serve_policy(load(PolicySettings), CacheSettings())


def main(arguments: list[str]) -> None:
    commands = {(): serve, ("prepare",): prepare_bundled}
    command = commands.get(tuple(arguments))
    if command is None:
        raise SystemExit("usage: python -m policy [prepare]")
    try:
        command()
    except ConfigurationError as error:
        raise SystemExit(f"configuration: {error.detail}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
