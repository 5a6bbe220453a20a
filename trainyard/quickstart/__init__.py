"""From nothing to a platform that has run a TrainJob."""

from trainyard.quickstart.run import Outcome, quickstart

__all__ = ["Outcome", "quickstart"]
