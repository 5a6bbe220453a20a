"""Quickstart: set up the platform and run a TrainJob."""

from trainyard.platform.quickstart.run import InstalledPlatform, quickstart

__all__ = ["InstalledPlatform", "quickstart"]
