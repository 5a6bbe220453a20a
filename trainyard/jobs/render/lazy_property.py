"""Lazy property: computed on first access, without the lock of ``functools.cached_property`` in Python 3.11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class LazyProperty(Generic[_Value]):
    """Property of an immutable object that keeps its first value.

    Parameters
    ----------
    compute
        Pure: threads that read the property at the same time may both compute it.
    """

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name of the property."""
        self._name = name

    def __get__(self, instance: Any, owner: type) -> _Value:
        """Compute the value and store it in the object, which then returns it without this call."""
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
