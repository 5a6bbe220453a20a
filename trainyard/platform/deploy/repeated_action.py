"""Action that is repeated in a thread while an operation runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(action: Callable[[], None], interval: float) -> Iterator[None]:
    """Run an action every `interval` seconds until the block ends; a running one is waited for."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(interval):
            action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
