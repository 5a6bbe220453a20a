"""Digest of this Trainyard's own code, to detect processes started with older code."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

__all__ = ["sources_digest"]


@functools.cache
def sources_digest() -> str:
    """Return a hash of every Python file of the package, as they were when this process asked first."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
