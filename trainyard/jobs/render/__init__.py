"""Render a TrainJob and its runtime into JobSet, PodGroup and ConfigMap; pure: no clock, no randomness, no I/O."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from trainyard.jobs.render.defaults import defaulted, wants_runtime
    from trainyard.jobs.render.frameworks import key_kind
    from trainyard.jobs.render.pipeline import admit, render, validate
    from trainyard.jobs.render.platform_facts import context_of
    from trainyard.jobs.render.result import (
        COSCHEDULING_SCHEDULER,
        Decision,
        Rejected,
        RenderContext,
        Rendered,
        StatusServer,
    )
    from trainyard.jobs.render.runtime_admission import validate_runtime
    from trainyard.jobs.render.runtime_snapshot import read_snapshot, snapshot, snapshot_name
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "defaults": "defaulted wants_runtime",
            "frameworks": "key_kind",
            "pipeline": "admit render validate",
            "platform_facts": "context_of",
            "result": "COSCHEDULING_SCHEDULER Decision Rejected RenderContext Rendered StatusServer",
            "runtime_admission": "validate_runtime",
            "runtime_snapshot": "read_snapshot snapshot snapshot_name",
        },
    )

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
    "snapshot",
    "snapshot_name",
    "validate",
    "validate_runtime",
    "wants_runtime",
]
