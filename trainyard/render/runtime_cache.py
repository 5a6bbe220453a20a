"""Cache of what depends only on a runtime: a platform has few runtimes and many TrainJobs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from trainyard.api import Runtime

__all__ = ["once_per_runtime"]

_Result = TypeVar("_Result")


def once_per_runtime(function: Callable[[Runtime], _Result]) -> Callable[[Runtime], _Result]:
    """Return the function with its answers remembered for as long as the runtime exists.

    Runtimes are frozen and are told apart by identity, so that looking one up costs nothing. The function must be pure,
    and its answer must neither refer to the runtime itself, which would keep it alive, nor be changed by anyone.
    """
    answers: dict[int, tuple[weakref.ref[Runtime], _Result]] = {}

    @wraps(function)
    def remembered(runtime: Runtime) -> _Result:
        key = id(runtime)
        known = answers.get(key)
        if known is not None and known[0]() is runtime:
            return known[1]
        answer = function(runtime)
        answers[key] = weakref.ref(runtime, lambda gone: _forget(answers, key, gone)), answer
        return answer

    return remembered


def _forget(answers: dict[int, tuple[weakref.ref[Runtime], _Result]], key: int, gone: weakref.ref[Runtime]) -> None:
    known = answers.get(key)
    if known is not None and known[0] is gone:
        del answers[key]
