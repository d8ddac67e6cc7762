"""pip's settings as pip itself sees them (files and environment), said again in uv's words. Standard library only.

uv reads none of pip's settings, so an index, find-links, proxy or certificate that pip needs here would be missed.
A setting made for uv itself (`UV_…`) is left as it is.
"""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

SECTIONS = ("global", "install", ":env:")
"""The sections that `pip install` reads; later ones go over earlier ones, as in pip."""
LISTS = {"extra-index-url", "find-links", "trusted-host"}
FALSE = {"", "0", "false", "no", "off", "n", "f"}
ELSEWHERE = {"UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_TARGET", "UV_PREFIX"}
"""Would have uv install into another environment than the one that is being made."""
UNWANTED = ELSEWHERE | {"UV_REQUIRE_HASHES", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME"}
"""torch's list has no hashes: its builds differ per platform."""


def read(python: Path) -> dict[str, list[str]]:
    """What `pip config list` of that interpreter says, as a list of words for each setting; ends where it says nothing."""
    listing = subprocess.run([str(python), "-m", "pip", "config", "list"], stdout=subprocess.PIPE, text=True, check=False)
    if listing.returncode:
        raise SystemExit("[setup] pip's settings cannot be read; its own words stand above.")
    return parse(listing.stdout)


def parse(listing: str) -> dict[str, list[str]]:
    """Settings from lines such as `global.index-url='…'`; an empty value counts as none, as in pip."""
    by_section: dict[str, dict[str, list[str]]] = {section: {} for section in SECTIONS}
    for line in listing.splitlines():
        key, _, quoted = line.partition("=")
        section, _, name = key.rpartition(".")
        if section not in by_section or not quoted:
            continue
        value = str(ast.literal_eval(quoted.strip()))
        words = value.split() if name in LISTS else [value.strip()]
        if words and words != [""]:
            by_section[section][name] = words
    return {name: words for section in SECTIONS for name, words in by_section[section].items()}


def usable(location: str) -> str | None:
    """A location as uv wants it; None for a folder that is not there, where pip warns and uv refuses."""
    url = urlparse(location)
    if url.scheme not in {"", "file"}:
        return location
    path = Path(unquote(url.path) if url.scheme else location).expanduser().absolute()
    if not path.exists():
        return None
    return location if url.scheme else str(path)


def flag(settings: Mapping[str, list[str]], name: str) -> bool:
    return settings.get(name, [""])[0].lower() not in FALSE


def sources(settings: Mapping[str, list[str]]) -> dict[str, str]:
    """Where packages come from."""
    found = {}
    for ours, theirs, separator in (
        ("index-url", "UV_DEFAULT_INDEX", " "),
        ("extra-index-url", "UV_INDEX", " "),
        ("find-links", "UV_FIND_LINKS", ","),
    ):
        locations = [kept for location in settings.get(ours, []) if (kept := usable(location))]
        if locations:
            found[theirs] = separator.join(locations)
    if flag(settings, "no-index"):
        found["UV_NO_INDEX"] = "1"
    return found


def connection(settings: Mapping[str, list[str]], environ: Mapping[str, str]) -> dict[str, str]:
    """How they are reached: certificates, proxy, hosts trusted without a certificate, patience."""
    found = {}
    certificate = settings.get("cert", [""])[0] or environ.get("REQUESTS_CA_BUNDLE", "") or environ.get("CURL_CA_BUNDLE", "")
    if certificate:
        found["SSL_CERT_DIR" if Path(certificate).is_dir() else "SSL_CERT_FILE"] = certificate
    elif "SSL_CERT_FILE" not in environ and "SSL_CERT_DIR" not in environ:
        found["UV_SYSTEM_CERTS"] = "true"
    for ours, theirs in (
        ("client-cert", "SSL_CLIENT_CERT"),
        ("proxy", "ALL_PROXY"),
        ("trusted-host", "UV_INSECURE_HOST"),
        ("default-timeout", "UV_HTTP_TIMEOUT"),
        ("timeout", "UV_HTTP_TIMEOUT"),
        ("retries", "UV_HTTP_RETRIES"),
    ):
        if settings.get(ours):
            found[theirs] = " ".join(settings[ours])
    if "UV_HTTP_TIMEOUT" in found:
        found["UV_HTTP_TIMEOUT"] = str(max(1, round(float(found["UV_HTTP_TIMEOUT"]))))
    if "ALL_PROXY" in found:
        found |= {"HTTP_PROXY": found["ALL_PROXY"], "HTTPS_PROXY": found["ALL_PROXY"]}
    return found


def has_cache(environ: Mapping[str, str]) -> bool:
    """Whether uv can keep what it fetches; where it cannot, pip goes on without a cache and uv ends."""
    home = environ.get("HOME", "")
    place = environ.get("UV_CACHE_DIR") or environ.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    if not place:
        return False
    there = next(folder for folder in (Path(place), *Path(place).absolute().parents) if folder.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def uv_environment(settings: Mapping[str, list[str]], environ: Mapping[str, str], venv: Path) -> dict[str, str]:
    """The environment for uv: pip's settings, this environment as the target, and bytecode written."""
    env = {name: value for name, value in environ.items() if name not in UNWANTED}
    for name, value in (sources(settings) | connection(settings, environ)).items():
        if not (name.startswith("UV_") and environ.get(name)):
            env[name] = value
    if flag(settings, "no-cache-dir") or not has_cache(env):
        env.setdefault("UV_NO_CACHE", "1")
    # The first index that knows a name must not hide the others, as in pip. uv asks Python where it lies, and takes that for UTF-8.
    env |= {"VIRTUAL_ENV": str(venv), "UV_INDEX_STRATEGY": "unsafe-best-match", "LC_ALL": "C.UTF-8"}
    env.setdefault("UV_LINK_MODE", "hardlink")
    return env
