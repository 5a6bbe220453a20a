"""Quickstart: set up the platform and run a TrainJob."""

from trainyard.quickstart.run import InstalledPlatform, quickstart

__all__ = ["InstalledPlatform", "quickstart"]
