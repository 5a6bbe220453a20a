"""Figures of samples: percentiles, ratios and the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

REFERENCES = {"none": "no_policy", "gatekeeper": "gatekeeper"}
"""What the others are compared with, and how the ratio is called."""


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least this share of all samples does not exceed (nearest rank).

    Raises
    ------
    ValueError
        There are no samples, or the share is none.
    """
    if not samples or not 0 < share <= 1:
        raise ValueError(f"no percentile {share} of {len(samples)} samples")
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def summary(samples: Sequence[float], processor: Mapping[str, float]) -> dict[str, Any]:
    """Return the figures of one contender.

    Parameters
    ----------
    samples
        Seconds of every request.
    processor
        Processor seconds of all requests together, by program.
    """
    return {
        "requests": len(samples),
        "p50_ms": round(percentile(samples, 0.5) * 1000, 3),
        "p99_ms": round(percentile(samples, 0.99) * 1000, 3),
        "processor_ms_a_request": {name: round(spent / len(samples) * 1000, 3) for name, spent in processor.items()},
    }


def ratios(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return, by contender, its latencies over those without policy and over Gatekeeper's, and of what is added.

    ``added_to_gatekeeper`` compares what a contender adds to the median without policies with what Gatekeeper adds.
    """
    result: dict[str, dict[str, float]] = {}
    for name, own in figures.items():
        found: dict[str, float] = {}
        for reference, label in REFERENCES.items():
            if reference in figures:
                for rank in ("p50", "p99"):
                    found[f"{rank}_to_{label}"] = round(own[f"{rank}_ms"] / figures[reference][f"{rank}_ms"], 2)
        if added := _added("gatekeeper", figures):
            found["added_to_gatekeeper"] = round(_added(name, figures) / added, 2)
        found["processor_to_gatekeeper"] = round(processor(own) / processor(figures["gatekeeper"]), 2)
        result[name] = found
    return result


def processor(figures: Mapping[str, Any]) -> float:
    """Return the processor milliseconds of a request in all programs together."""
    return sum(figures["processor_ms_a_request"].values())


def table(latency: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the figures as a Markdown table, a row a request and contender."""
    head = (
        "request",
        "contender",
        "p50 ms",
        "p99 ms",
        "p50 / none",
        "p99 / none",
        "p50 / Gatekeeper",
        "p99 / Gatekeeper",
        "CPU ms",
    )
    rows = [head, tuple("---" for _ in head)]
    for request, figures in latency.items():
        compared = ratios(figures)
        for name, own in figures.items():
            ratio = compared[name]
            keys = ("p50_to_no_policy", "p99_to_no_policy", "p50_to_gatekeeper", "p99_to_gatekeeper")
            cells = (f"{own['p50_ms']:.1f}", f"{own['p99_ms']:.1f}", *(f"{ratio[key]:.2f}" for key in keys))
            rows.append((request, name, *cells, f"{processor(own):.1f}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _added(name: str, figures: Mapping[str, Mapping[str, Any]]) -> float:
    return float(figures[name]["p50_ms"] - figures["none"]["p50_ms"])
