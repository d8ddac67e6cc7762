"""Entry point: `python -m policy` serves, `… prepare` only merges the bundled policy into the cache folder, and
`… merge BASE ADAPTER TARGET` makes a model directory of a LoRA adapter and its base.

Heavy imports (torch, transformers, vLLM) wait until the settings have been found sound.
"""

from __future__ import annotations

import sys
from pathlib import Path

from parallelsearch.errors import ConfigurationError


def prepare_bundled() -> None:
    from policy.bundle import bundled_policy
    from policy.merging import merge
    from policy.preparation import prepare
    from policy.settings import CacheSettings
    from servicekit.preflight import require_writable
    from servicekit.settings import load

    models = load(CacheSettings).models_dir
    require_writable(models, "PARALLELSEARCH_CACHE_DIR")
    prepare(bundled_policy(), models, merge=merge)


def merge_adapter(base: str, adapter: str, target: str) -> None:
    from policy.bundle import bundled_policy
    from policy.checkpoint import find_base, require_adapter
    from policy.merging import merge
    from servicekit.preflight import require_writable

    require_adapter(Path(adapter))
    require_writable(Path(target), "TARGET")
    merge(find_base(base, bundled_policy), Path(adapter), Path(target))


def serve() -> None:
    from policy.serving import serve as serve_policy
    from policy.settings import CacheSettings, PolicySettings
    from servicekit.settings import load

    serve_policy(load(PolicySettings), load(CacheSettings))


def main(arguments: list[str]) -> None:
    try:
        match arguments:
            case []:
                serve()
            case ["prepare"]:
                prepare_bundled()
            case ["merge", base, adapter, target]:
                merge_adapter(base, adapter, target)
            case _:
                raise SystemExit("usage: python -m policy [prepare | merge BASE ADAPTER TARGET]")
    except ConfigurationError as error:
        raise SystemExit(f"configuration: {error.detail}") from None
    except KeyboardInterrupt:
        raise SystemExit("[policy] ended before it was ready") from None


if __name__ == "__main__":
    main(sys.argv[1:])
