"""Refuses to start, in one sentence and before anything heavy is loaded, where the host cannot give what the settings ask for."""

from __future__ import annotations

import errno
import socket
import tempfile
from pathlib import Path

from servicekit.settings import ServiceSettings


def require_port(settings: ServiceSettings) -> None:
    """Raises SystemExit: the port is taken, or the address is none of this host."""
    host, port, prefix = settings.host, settings.port, settings.model_config.get("env_prefix", "")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SystemExit(
                    f"configuration: Port {port} on {host} is taken by another process. Stop it, or set {prefix}PORT to a free one."
                ) from None
            raise SystemExit(
                f"configuration: Cannot listen on {host}:{port}: {error.strerror or error}. Set {prefix}HOST and {prefix}PORT."
            ) from None


def require_file(path: Path, variable: str) -> None:
    """Raises SystemExit: a file cannot be written there, or there is a folder in its place."""
    if path.is_dir():
        raise SystemExit(f"configuration: {variable}: {path} is a folder. Name a file in it.")
    require_writable(path.parent, variable)


def require_writable(folder: Path, variable: str) -> None:
    """Makes the folder where it is not there. Raises SystemExit: files cannot be written into it; `variable` names it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SystemExit(
            f"configuration: {variable}: {folder} cannot be written to ({error.strerror}). Let its user write, or name another."
        ) from None
