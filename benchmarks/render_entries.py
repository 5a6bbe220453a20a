"""Entries of one TrainJob into each file of the renderer: ``python -m benchmarks.render_entries ROOT FILE...``.

An entry is a call from another file. Prints the number of entries by file, as JSON, while the checkout ROOT renders
the manifests.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

__all__: list[str] = []


def entries(root: Path, manifests: list[str]) -> Counter[str]:
    """Render manifests with a checkout that is the first on the path; return the entries by file."""
    from trainyard.cli import main

    prefix = f"{root}/trainyard/jobs/render/"
    found: Counter[str] = Counter()
    generators: dict[int, FrameType] = {}  # a generator that goes on is not entered again

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        name = code.co_filename
        if event != "call" or not name.startswith(prefix) or code.co_name == "<module>":
            return
        if frame.f_back is not None and frame.f_back.f_code.co_filename == name:
            return
        if code.co_flags & inspect.CO_GENERATOR:
            if id(frame) in generators:
                return
            generators[id(frame)] = frame
        found[name.removeprefix(prefix)] += 1

    sys.argv = ["trainyard", "render", *manifests]
    sys.setprofile(note)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    sys.setprofile(None)
    return found


if __name__ == "__main__":
    print(json.dumps(entries(Path(sys.argv[1]), sys.argv[2:])))
