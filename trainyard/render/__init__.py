"""Rendering: TrainJob and runtime to JobSet, PodGroup and ConfigMap. Pure: no clock, no randomness, no I/O."""

from trainyard.render.defaults import defaulted
from trainyard.render.pipeline import render, validate
from trainyard.render.result import Rejected, RenderContext, Rendered, Verdict
from trainyard.render.runtimes import validate_runtime
from trainyard.render.snapshot import read_snapshot, snapshot_name

__all__ = [
    "Rejected",
    "RenderContext",
    "Rendered",
    "Verdict",
    "defaulted",
    "read_snapshot",
    "render",
    "snapshot_name",
    "validate",
    "validate_runtime",
]
