"""Render a TrainJob and its runtime into JobSet, PodGroup and ConfigMap; pure: no clock, no randomness, no I/O."""

from typing import TYPE_CHECKING

from trainyard.names_on_demand import names_on_demand

if TYPE_CHECKING:
    pass
    pass
    pass
    pass
    pass
    pass
    pass
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
