"""The names by which a service on loopback may be asked by anybody.

A page's own name may be made to point to loopback (DNS rebinding). The browser then takes what a service there answers for an
answer to that page, and hands it over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of loopback, which no page can have, and `others`; `*` is any. `setting` is where others are named."""

    others: frozenset[str]
    setting: str

    def know(self, host: str) -> bool:
        """Whether the value of a Host header, which may have a port, is one of them."""
        name = re.sub(r":\d*$", "", host.strip()).lower()
        return "*" in self.others or is_loopback(name) or name.endswith(".localhost") or name in self.others

    def refusal(self, host: str) -> str:
        return f"This service is asked as localhost or 127.0.0.1, not as {host[:100]!r}: name it in {self.setting}."
