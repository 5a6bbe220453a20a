"""Usage of devices over time, by tenant, queue, job and runtime: levels, their record, and sums over a span."""

from trainyard.usage.account import Account, Gap, Span, Usage
from trainyard.usage.ledger import Ledger
from trainyard.usage.levels import Gang, Holding, Level, Line, QueueLevel, QueueTenants, Share, TakenBack

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
