"""Conversions a second of processor time, with and without reading and writing YAML.

The jobs are the inputs of the tests, all kinds in turn, in one process. Prints one line a figure and writes
`benchmarks/results/convert.json`.

    python -m benchmarks.convert [--seconds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from benchmarks.recording import ROOT, publish
from trainyard.data import data_folder
from trainyard.jobs.convert.conversion_report import as_text, as_yaml
from trainyard.jobs.convert.converted_documents import convert_documents
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.manifests.documents import objects

INPUTS = ROOT / "tests" / "convert" / "inputs"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=3, help="how long each measurement takes")
    options = parser.parse_args()
    texts = {path.name: path.read_text() for path in sorted(INPUTS.glob("*.yaml"))}
    catalog = {body["metadata"]["name"]: body for body in load_catalog(data_folder("runtimes")).objects()}
    jobs = sum(bool(each.objects) for each in convert_documents(texts, catalog))

    def whole() -> None:
        conversions = convert_documents(texts, catalog)
        as_yaml(body for each in conversions for body in each.objects)
        as_text(conversions)

    results = {
        "jobs": jobs,
        "files_a_second": round(jobs * _rounds(whole, options.seconds)),
        "reading_a_second": round(jobs * _rounds(lambda: _read(texts), options.seconds)),
        "conversions_with_reading_a_second": round(
            jobs * _rounds(lambda: convert_documents(texts, catalog), options.seconds)
        ),
    }
    publish("convert", results)


def _read(texts: dict[str, str]) -> None:
    for text in texts.values():
        list(objects(text))


def _rounds(work: Callable[[], object], seconds: float) -> float:
    """Return how often a second of processor time does the work."""
    work()
    start, rounds = time.process_time(), 0
    while time.process_time() - start < seconds:
        work()
        rounds += 1
    return rounds / (time.process_time() - start)


if __name__ == "__main__":
    main()
