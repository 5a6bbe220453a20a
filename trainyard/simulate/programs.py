"""The programs of Volcano in a replay, by their names in scenarios."""

from __future__ import annotations

from typing import Final

__all__ = ["PROGRAMS"]

PROGRAMS: Final = {
    "admission": "vc-webhook-manager",
    "controllers": "vc-controller-manager",
    "scheduler": "vc-scheduler",
}
"""Program by name; its Deployment is ``volcano-<name>``."""
