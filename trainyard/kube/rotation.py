"""Values from files that are replaced while we run: tokens, client certificates, authorities."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from trainyard.kube.errors import CredentialsError

__all__ = ["Rotated"]

_LOG = logging.getLogger(__name__)
_CHECK_SECONDS = 10.0
T = TypeVar("T")


class Rotated(Generic[T]):
    """A value made of files, made again when one of them changes.

    A file that cannot be read or is half written leaves the last good value in place.

    Parameters
    ----------
    name
        What it is, for errors and logs.
    files
        The files that are looked at, at most every 10 seconds.
    make
        Makes the value of their content and of the bytes that `current` is called with; raises OSError or ValueError.
    clock
        Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[Path],
        make: Callable[[bytes | None], T],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._files = tuple(files)
        self._make = make
        self._clock = clock
        self._value: T | None = None
        self._made_of: object = None
        self._refused: object = None
        self._given: bytes | None = None
        self._looked_at = float("-inf")

    def current(self, given: bytes | None = None, *, now: bool = False) -> T:
        """Return the value.

        Parameters
        ----------
        given
            Something beside the files that the value is made of; another one means another value.
        now
            Look at the files whenever they were looked at last.

        Raises
        ------
        CredentialsError
            If there never was a good value.
        """
        if now or given != self._given or self._value is None or self._clock() - self._looked_at >= _CHECK_SECONDS:
            self._given, self._looked_at = given, self._clock()
            self._look(given)
        if self._value is None:
            raise CredentialsError(f"{self._name}: not usable", fix="Check the kubeconfig and its files")
        return self._value

    def _look(self, given: bytes | None) -> None:
        try:
            seen = (given, tuple(_state(path) for path in self._files))
            if seen == self._made_of:
                return
            self._value, self._made_of = self._make(given), seen
        except (OSError, ValueError) as error:
            if self._value is None:
                raise CredentialsError(f"{self._name}: {error}", fix="Check the kubeconfig and its files") from error
            if str(error) != self._refused:
                _LOG.warning("%s: %s; what was read before stays in use", self._name, error)
            self._refused = str(error)
        else:
            self._refused = None


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size
