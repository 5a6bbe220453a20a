"""Trainyard: a distributed training platform for Kubernetes as one reviewed program."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("trainyard")
