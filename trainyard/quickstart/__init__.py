"""Quickstart: set up the platform and run a TrainJob."""

from trainyard.quickstart.run import Outcome, quickstart

__all__ = ["Outcome", "quickstart"]
