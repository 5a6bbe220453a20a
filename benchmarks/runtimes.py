"""`trainyard runtimes check` of a large catalog: every runtime rendered and reviewed by every rule, as CI runs it.

Makes a catalog of copies of the shipped runtimes in a temporary folder, under version control, so that `--against`
has something to compare with. Prints one line a figure and writes `benchmarks/results/runtimes.json`.

    python -m benchmarks.runtimes [--runtimes 200]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.commands import spent
from benchmarks.recording import publish
from trainyard.api.constants import TORCHTUNE_MODEL_ANNOTATION
from trainyard.data import data_folder
from trainyard.jobs.render.frameworks.torchtune import named_model
from trainyard.jobs.runtimes.catalog import Runtime
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.jobs.runtimes.folder import INDEX, CatalogFolder, version_file, write_folder
from trainyard.local.cluster.toolchain import program_path
from trainyard.manifests.text_edits import dumped, with_value

LIMIT = 5.0
"""Seconds that a check of 200 runtimes may take."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runtimes", type=int, default=200)
    options = parser.parse_args()
    results = measure(options.runtimes)
    publish("runtimes", results)


def measure(count: int) -> dict[str, Any]:
    """Return seconds and processor seconds of a check, those of the policy server included."""
    program_path("opa")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(CatalogFolder(folder, {}), many(folder, count))
        for command in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=b", "-c", "user.email=b@c", "commit", "-qm", "b"],
        ):
            subprocess.run(["git", "-C", name, *command], check=True)
        whole = _timed("runtimes", "check", "--folder", name)
        compared = _timed("runtimes", "check", "--folder", name, "--against", "HEAD")
    return {
        "cores": os.cpu_count(),
        "runtimes": count,
        "limit_seconds": LIMIT,
        "check": whole,
        "check_against_revision": compared,
    }


def many(folder: Path, count: int) -> CatalogFolder:
    """Return a catalog with copies of the shipped runtimes, each under a name of its own."""
    shipped: tuple[Runtime, ...] = load_catalog(data_folder("runtimes")).runtimes
    texts: dict[str, str] = {}
    index: dict[str, Any] = {}
    for number in range(count):
        runtime = shipped[number % len(shipped)]
        version = runtime.versions[-1]
        name = f"copy-{number}-{runtime.name}"
        text = version.path.read_text(encoding="utf-8")
        text = with_value(text, ("metadata", "name"), f"{name}-1.0")
        if runtime.name.startswith("torchtune-"):
            model = ("metadata", "annotations", TORCHTUNE_MODEL_ANNOTATION)
            text = with_value(text, model, named_model(runtime.name))
        texts[version_file(name, "1.0")] = text
        entry = {"released": version.released, "changes": version.changes}
        index[name] = {"owner": "benchmark", "summary": runtime.summary, "alias": "1.0", "versions": {"1.0": entry}}
    return CatalogFolder(folder, {INDEX: dumped({"runtimes": index}), **texts})


def _timed(*arguments: str) -> dict[str, float]:
    taken, _ = spent([sys.executable, "-m", "trainyard", *arguments])
    return {name: round(seconds, 2) for name, seconds in taken.items()}


if __name__ == "__main__":
    main()
