"""The programs of Volcano that a replay runs, by the names that scenarios give them."""

from __future__ import annotations

from typing import Final

__all__ = ["PROGRAMS"]

PROGRAMS: Final = {
    "admission": "vc-webhook-manager",
    "controllers": "vc-controller-manager",
    "scheduler": "vc-scheduler",
}
"""Program by name; the Deployment of each is called ``volcano-<name>``."""
