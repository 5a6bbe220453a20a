"""Kubernetes names: subdomains, and paths below a domain."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_http_path", "is_subdomain"]

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_LONGEST_SUBDOMAIN: Final = 253


def is_subdomain(value: str) -> bool:
    """Return whether a text is an RFC 1123 subdomain, as names of objects and domains of keys are."""
    return len(value) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(value) is not None


def is_http_path(value: str) -> bool:
    """Return whether a text can follow the domain in a domain-prefixed path."""
    return _HTTP_PATH.fullmatch(value) is not None
