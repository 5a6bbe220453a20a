"""Record of measurements, and its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""


def result_file(name: str) -> Path:
    """Return the file of a measurement."""
    return ROOT / "benchmarks" / "results" / f"{name}.json"


def save(name: str, results: Mapping[str, Any]) -> None:
    """Write the figures of a measurement."""
    file = result_file(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(results, indent=2) + "\n")


def publish(name: str, results: Mapping[str, Any]) -> None:
    """Write the figures of a measurement and print one line a figure."""
    save(name, results)
    for figure, value in results.items():
        print(f"{figure}: {json.dumps(value)}")
