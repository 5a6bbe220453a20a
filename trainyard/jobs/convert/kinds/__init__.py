"""Supported kinds of legacy jobs. Each module with ``CONVERTERS`` converts one or more of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.discovery import declared_in, merged
from trainyard.jobs.convert.conversion import Converter

KINDS: Final[Mapping[tuple[str, str], Converter]] = merged(
    "converter of a legacy job", (found for _, found in declared_in(__name__, __path__, "CONVERTERS"))
)
"""Converters by apiVersion and kind."""


RETIRED: Final = {
    ("kubeflow.org", "MXJob"): (
        "the training operator runs no MXJobs since version 1.9, as Apache MXNet has been retired",
        "move the program to another framework; a runtime without a framework runs it unchanged on a single node",
    ),
}
"""Job kinds that no operator runs any more, by group and kind: why, and what to do."""


def converter_of(version: str, kind: str) -> Converter | None:
    """Return the converter of a kind; None if it is not supported."""
    return KINDS.get((version, kind))
