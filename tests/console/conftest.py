"""Fixtures of the tests of the console."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


class _Quick:
    """asyncio for uvicorn, which waits 0.1 s at each step of its end: in 53 tests that is ten seconds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@pytest.fixture(autouse=True)
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers of the process of the tests end at once."""
    monkeypatch.setattr("uvicorn.server.asyncio", _Quick())
