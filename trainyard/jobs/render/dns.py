"""Syntax of Kubernetes names: subdomains and domain-prefixed paths."""

from __future__ import annotations

import re
from typing import Final

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_MAX_SUBDOMAIN_LENGTH: Final = 253


def is_subdomain(value: str) -> bool:
    """Return whether a text is an RFC 1123 subdomain, the syntax of object names and of key prefixes."""
    return len(value) <= _MAX_SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(value) is not None


def is_http_path(value: str) -> bool:
    """Return whether a text is a valid path after the domain of a domain-prefixed path."""
    return _HTTP_PATH.fullmatch(value) is not None
