"""Usage of devices over time, by tenant, queue, job and runtime: levels, their record, and sums over a span."""

from trainyard.insight.usage.account import Account, Gap, Span, Usage
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Gang, Holding, Level, Line, QueueLevel, QueueTenants, Share, TakenBack

__all__ = [
    "Account",
    "Gang",
    "Gap",
    "Holding",
    "Ledger",
    "Level",
    "Line",
    "QueueLevel",
    "QueueTenants",
    "Share",
    "Span",
    "TakenBack",
    "Usage",
]
