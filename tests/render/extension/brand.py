"""Keys of a kind that no framework has: one file makes it known to the controller."""

from __future__ import annotations

import secrets


def generate() -> dict[str, str]:
    """Return a new brand."""
    return {"brand": secrets.token_hex()}
