"""Validation of objects as an API server does it, by the program ``api-validator``: Kubernetes' own code, offline."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from trainyard.api import Body
from trainyard.errors import TrainyardError
from trainyard.jobs.render.job_errors import FieldError

_BUILD: Final = "api-validator is not built; `trainyard cluster toolchain --only api-validator` builds it"
NOT_BUILT: Final = f"pods were not validated as the API server validates them: {_BUILD}"
CEL_NOT_COMPILED: Final = f"the CEL of the rules was not compiled as the API server compiles it: {_BUILD}"
_SECONDS: Final = 30.0
"""Timeout of one object; validation takes about a millisecond."""
REQUEST_LIMIT: Final = 3 * 1024**2
"""Largest request that the API server accepts, in bytes."""
_TOO_LARGE: Final = FieldError(
    "", f"is larger than {REQUEST_LIMIT} bytes, the API server's limit", "RequestEntityTooLarge"
)


class ApiValidator:
    """One process of the program, started at the first validation, as a context manager.

    Parameters
    ----------
    program
        Returns the program, or None if it is not built; called once, at the first use.
    """

    def __init__(self, program: Callable[[], Path | None]) -> None:
        self._find = program
        self._process: subprocess.Popen[bytes] | None = None

    @cached_property
    def _program(self) -> Path | None:
        return self._find()

    @property
    def available(self) -> bool:
        """Whether the program is built."""
        return self._program is not None

    def __enter__(self) -> ApiValidator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def validate(self, objects: Sequence[Body]) -> list[tuple[FieldError, ...]]:
        """Return the errors with which an API server rejects the creation of each object; requires `available`.

        Raises
        ------
        TrainyardError
            The program stops, or does not answer.
        """
        return [self._validated(body) for body in objects]

    def _validated(self, body: Body) -> tuple[FieldError, ...]:
        line = orjson.dumps(body)
        if len(line) > REQUEST_LIMIT:
            return (_TOO_LARGE,)
        answer = self._exchange(line + b"\n")
        return tuple(FieldError(each["path"], each["message"], each["reason"]) for each in answer["errors"])

    def _exchange(self, line: bytes) -> Any:
        process = self._started()
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        timeout = threading.Timer(_SECONDS, process.kill)
        timeout.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return orjson.loads(process.stdout.readline())
        except (OSError, orjson.JSONDecodeError) as error:
            raise TrainyardError(
                f"The program {self._program} does not answer",
                fix="build it again with `trainyard cluster toolchain --only api-validator`, or report a defect",
            ) from error
        finally:
            timeout.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            assert self.available  # noqa: S101
            self._process = subprocess.Popen(  # noqa: S603
                [str(self._program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process
