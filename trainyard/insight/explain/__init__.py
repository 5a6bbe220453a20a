"""Explanations: why a job waits, is suspended or failed, from the recorded state of its cluster; pure."""

from __future__ import annotations
