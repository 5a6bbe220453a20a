"""Quickstart: set up the platform and run a TrainJob."""
