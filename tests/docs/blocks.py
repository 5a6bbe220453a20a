"""The YAML of the documentation: every fenced block, what is said about it, and the TrainJobs that are to run."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.frameworks import Run
from tests.support import ROOT
from trainyard.manifests.loader import load

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"<!-- (?P<mark>[a-z]+) -->\s*\Z")
_SERVED = ("deepspeed", "horovod", "mlx", "mpi", "ray")
"""Runtimes whose replicatedJob node serves until the job ends."""


@dataclass(frozen=True)
class Block:
    """One block.

    Parameters
    ----------
    page
        The file, from the root of the repository.
    line
        Line of its first content.
    mark
        The word in the comment before it, such as ``run``; empty where there is none.
    """

    page: str
    line: int
    text: str
    mark: str = ""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.page}:{self.line}"

    def documents(self) -> list[Any]:
        """Return what its documents say; a key that is given twice is an error."""
        texts = re.split(r"(?m)^---\s*$", self.text)
        return [body for text in texts if (body := load(text, self.place)) is not None]


@dataclass(frozen=True)
class DocumentedRun(Run):
    """A TrainJob of a page, as a job of the tests.

    Parameters
    ----------
    written
        The TrainJob as the page has it.
    """

    written: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, body: dict[str, Any]) -> DocumentedRun:
        """Return the run of a TrainJob."""
        metadata = body["metadata"]
        runtime = body["spec"]["runtimeRef"]["name"]
        return cls(metadata["name"], runtime, namespace=metadata["namespace"], written=body)

    def body(self) -> dict[str, Any]:
        """Return the TrainJob; what serves in reality until its job ends does so on a simulated node too."""
        found = copy.deepcopy(self.written)
        if self.runtime.startswith(_SERVED):
            simulated = Run("", "", serving=("node",)).body()["spec"]["runtimePatches"]
            found["spec"]["runtimePatches"] = [*found["spec"].get("runtimePatches", ()), *simulated]
        return found


def pages() -> list[Path]:
    """Return the pages of the documentation."""
    return sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])


def blocks(page: Path) -> Iterator[Block]:
    """Yield the YAML blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        if found["language"] not in ("yaml", "yml"):
            continue
        mark = _MARK.search(text[: found.start()])
        indent = len(found["indent"])
        content = "".join(line[indent:] for line in found["text"].splitlines(keepends=True))
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(page.relative_to(ROOT).as_posix(), line, content, mark["mark"] if mark else "")


def guide_runs() -> list[DocumentedRun]:
    """Return the TrainJobs of the blocks that are marked ``run``."""
    return [
        DocumentedRun.of(body)
        for page in pages()
        for block in blocks(page)
        if block.mark == "run"
        for body in yaml.safe_load_all(block.text)
        if body["kind"] == "TrainJob"
    ]
