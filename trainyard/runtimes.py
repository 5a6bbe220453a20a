"""Authoring of runtimes in Python: the stable import path of `trainyard.jobs.runtimes`."""

from trainyard.jobs.runtimes import AuthoredVersion, Deprecation, Release, author

__all__ = ["AuthoredVersion", "Deprecation", "Release", "author"]
