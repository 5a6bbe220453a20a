"""Cache of values derived from a runtime: a cluster has few runtimes and many TrainJobs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from trainyard.api import Runtime

_Result = TypeVar("_Result")


def once_per_runtime(function: Callable[[Runtime], _Result]) -> Callable[[Runtime], _Result]:
    """Cache the results of a function for the lifetime of each runtime.

    Runtimes are immutable and identified by ``id``, which makes lookups cheap. The function must be pure. Its result
    must not be modified, and must not refer to the runtime, which would keep it alive.
    """
    results: dict[int, tuple[weakref.ref[Runtime], _Result]] = {}

    @wraps(function)
    def cached(runtime: Runtime) -> _Result:
        key = id(runtime)
        entry = results.get(key)
        if entry is not None and entry[0]() is runtime:
            return entry[1]
        result = function(runtime)
        results[key] = weakref.ref(runtime, lambda reference: _evict(results, key, reference)), result
        return result

    return cached


def _evict(results: dict[int, tuple[weakref.ref[Runtime], _Result]], key: int, reference: weakref.ref[Runtime]) -> None:
    entry = results.get(key)
    if entry is not None and entry[0] is reference:
        del results[key]
