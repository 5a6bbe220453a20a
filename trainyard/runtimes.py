"""Authoring of runtimes in Python: the stable import path of `trainyard.jobs.runtimes`."""

from trainyard.jobs.runtimes.authoring import AuthoredVersion, Release, author
from trainyard.jobs.runtimes.catalog import Deprecation

__all__ = ["AuthoredVersion", "Deprecation", "Release", "author"]
