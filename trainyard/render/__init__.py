"""Render a TrainJob and its runtime into JobSet, PodGroup and ConfigMap; pure: no clock, no randomness, no I/O."""

from trainyard.render.defaults import defaulted, wants_runtime
from trainyard.render.frameworks import key_kind
from trainyard.render.pipeline import admit, render, validate
from trainyard.render.platform_facts import context_of
from trainyard.render.result import COSCHEDULING_SCHEDULER, Decision, Rejected, RenderContext, Rendered, StatusServer
from trainyard.render.runtime_admission import validate_runtime
from trainyard.render.runtime_snapshot import read_snapshot, snapshot_name

__all__ = [
    "COSCHEDULING_SCHEDULER",
    "Decision",
    "Rejected",
    "RenderContext",
    "Rendered",
    "StatusServer",
    "admit",
    "context_of",
    "defaulted",
    "key_kind",
    "read_snapshot",
    "render",
    "snapshot_name",
    "validate",
    "validate_runtime",
    "wants_runtime",
]
