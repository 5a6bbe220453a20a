"""Digest of Trainyard's own code, to detect processes that were started with older code."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


@functools.cache
def sources_digest() -> str:
    """Return a hash of all Python files of the package, as of the first call in this process."""
    package = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
