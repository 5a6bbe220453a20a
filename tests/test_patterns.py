"""Regular expressions take time linear in the length of a text: tenants and pull requests choose most texts."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import trainyard

_SHORT, _LONG = 1_500, 6_000
_NOTICEABLE: Final = 0.01
"""Seconds for a long text, beyond which the growth is measured."""
_GROWTH: Final = 9.0
"""Times of a text that is four times as long: 4 if linear, 16 if quadratic."""
_SEEDS: Final = (
    *("a", "1", " ", "\n", "[", "(", '"', "'", "\\", "-", ".", "/", ":", "=", "$(", "@", ",", "{", "#", "_"),
    *("a/", "a-", "a=", "a:", "a ", "[a", "[a]", "\x1b[", "\x1b[1;", "::", "##[", "1e", "-x ", "--- ", '"a', "\t", "|"),
    *("hostname ", "--nnodes ", "mpirun ", ": Invalid value: ", "Mounting arguments: ", "exec: ", "hook ", " probe "),
    *("exceeded quota: a, requested: ", ", used: ", "denied the request: ", 'webhook "a', "because of ", "queue `a"),
)
_BOUNDED: Final = {
    "trainyard.quantity._QUANTITY",  # of at most 32 characters
}


def _patterns() -> Iterator[tuple[str, str, Callable[[str], Any]]]:
    """Yield each expression of the library with the methods that its module calls."""
    for module in pkgutil.walk_packages(trainyard.__path__, "trainyard."):
        if module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        own = [(name, each) for name, each in vars(loaded).items() if isinstance(each, re.Pattern)]
        source = inspect.getsource(loaded) if own else ""
        for name, pattern in own:
            if isinstance(pattern.pattern, str) and re.search(rf"^{name}\b[^=\n]*=", source, re.MULTILINE):
                used = re.findall(rf"\b{name}\.(sub|search|findall|finditer|match|fullmatch|split)\b", source)
                for method in sorted(set(used) or {"search"}):
                    yield f"{module.name}.{name}", method, _called(pattern, method)


def _called(pattern: re.Pattern[str], method: str) -> Callable[[str], Any]:
    if method == "sub":
        return lambda text: pattern.sub("", text)
    if method == "finditer":
        return lambda text: list(pattern.finditer(text))
    return getattr(pattern, method)  # type: ignore[no-any-return]


def _seconds(call: Callable[[str], Any], seed: str, end: str, length: int) -> float:
    text = seed * (length // len(seed)) + end
    began = time.process_time()
    call(text)
    return time.process_time() - began


def _superlinear(call: Callable[[str], Any], seed: str, end: str) -> bool:
    if _seconds(call, seed, end, _LONG) < _NOTICEABLE:
        return False
    short, long = (min(_seconds(call, seed, end, length) for _ in range(3)) for length in (_SHORT, _LONG))
    return long >= _NOTICEABLE and long > _GROWTH * short


@pytest.mark.parametrize("end", ["", "!\n\x00"], ids=["ended", "odd-end"])
def test_no_expression_takes_longer_than_its_text_is_long(end: str) -> None:
    patterns = list(_patterns())
    assert len(patterns) > 100
    found = {
        f"{name}.{method} of {seed!r}"
        for name, method, call in patterns
        if name not in _BOUNDED
        for seed in _SEEDS
        if _superlinear(call, seed, end)
    }
    assert found == set()
