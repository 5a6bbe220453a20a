"""Files that appear when they are complete: a reader, or another writer, never sees a part of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_READABLE = 0o644


@contextmanager
def atomic_write(file: Path, mode: int = _READABLE) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces another one at the end; an exception removes it.

    Parameters
    ----------
    mode
        Permissions, from the first byte on.
    """
    with tempfile.NamedTemporaryFile("w+b", dir=file.parent, prefix=f".{file.name}.", delete=False) as output:
        temporary = Path(output.name)
        try:
            os.fchmod(output.fileno(), mode)
            yield output
            output.flush()
            temporary.replace(file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_text(file: Path, text: str) -> None:
    """Write a text file, and the folders that it needs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as output:
        output.write(text.encode())
