"""Helpers of the tests: what they repeat beside a block is not lost when it fails."""

from __future__ import annotations

import threading

import pytest

from tests.support import awaited, repeated


def test_what_is_repeated_fails_the_block() -> None:
    """A stream of requests may stop after the first one, and all answers are good ones."""
    results: list[int] = []

    def work() -> int:
        if len(results) == 2:
            raise OSError("connection refused")
        results.append(1)
        return 1

    with pytest.raises(AssertionError, match="failed after 2 results") as caught, repeated(work) as answers:
        awaited("two results", lambda: len(answers) == 2)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_failure_of_the_block_comes_first_and_names_the_other() -> None:
    def work() -> None:
        raise OSError("connection refused")

    def block() -> None:
        with repeated(work):
            awaited("the thread to fail", _finished)
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block") as caught:
        block()
    assert "connection refused" in caught.value.__notes__[0]


def _finished() -> bool:
    return not any(thread.name.startswith("repeated") for thread in threading.enumerate())


def test_what_succeeds_is_repeated_until_the_block_ends() -> None:
    with repeated(lambda: 1) as answers:
        awaited("three results", lambda: len(answers) >= 3)
    assert set(answers) == {1}
