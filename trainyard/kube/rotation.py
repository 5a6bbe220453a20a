"""Values loaded from rotated files: tokens, client certificates, certificate authorities."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from trainyard.kube.api_errors import CredentialsError

_LOG = logging.getLogger(__name__)
_CHECK_SECONDS = 10.0
T = TypeVar("T")


class FileBacked(Generic[T]):
    """A value built from files, rebuilt when one of them changes.

    If a file is unreadable or partially written, the last valid value stays in use.

    Parameters
    ----------
    name
        Name of the value in errors and logs.
    files
        Source files, checked at most every 10 seconds.
    make
        Builds the value from the files and the bytes passed to `current`; raises OSError or ValueError.
    clock
        Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[Path],
        build: Callable[[bytes | None], T],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._files = tuple(files)
        self._build = build
        self._clock = clock
        self._value: T | None = None
        self._built_from: object = None
        self._last_error: object = None
        self._extra: bytes | None = None
        self._checked_at = float("-inf")

    def current(self, extra: bytes | None = None, *, now: bool = False) -> T:
        """Return the value.

        Parameters
        ----------
        extra
            Additional input of ``build``; a change rebuilds the value.
        now
            Check the files even if they were checked less than 10 seconds ago.

        Raises
        ------
        CredentialsError
            If there has never been a valid value.
        """
        if now or extra != self._extra or self._value is None or self._clock() - self._checked_at >= _CHECK_SECONDS:
            self._extra, self._checked_at = extra, self._clock()
            self._reload(extra)
        if self._value is None:
            raise CredentialsError(f"{self._name}: not usable", fix="Check the kubeconfig and its files")
        return self._value

    def _reload(self, extra: bytes | None) -> None:
        try:
            seen = (extra, tuple(_state(path) for path in self._files))
            if seen == self._built_from:
                return
            self._value, self._built_from = self._build(extra), seen
        except (OSError, ValueError) as error:
            if self._value is None:
                raise CredentialsError(f"{self._name}: {error}", fix="Check the kubeconfig and its files") from error
            if str(error) != self._last_error:
                _LOG.warning("%s: %s; the previous value stays in use", self._name, error)
            self._last_error = str(error)
        else:
            self._last_error = None


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size
