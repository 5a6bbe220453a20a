"""A wall clock that is wrong by as many seconds as a file says; copied beside a controller as ``sitecustomize``."""

import datetime
import os
import time
from pathlib import Path

_OFFSET = Path(os.environ["FAULTS_CLOCK_OFFSET"])
_REAL, _REAL_TIME = datetime.datetime, time.time


def _offset() -> float:
    return float(_OFFSET.read_text() or 0)


class _Meta(type(_REAL)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL)


class _Shifted(_REAL, metaclass=_Meta):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "datetime.datetime":
        # Of its own class: libraries in C check for what is called datetime.datetime.
        return cls.fromisoformat((_REAL.now(tz) + datetime.timedelta(seconds=_offset())).isoformat())


def _time() -> float:
    return _REAL_TIME() + _offset()


datetime.datetime = _Shifted  # type: ignore[misc]
time.time = _time
