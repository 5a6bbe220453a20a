"""Address of the processes of a cluster on this machine."""

from __future__ import annotations

__all__ = ["HOST"]

HOST = "127.0.0.1"
