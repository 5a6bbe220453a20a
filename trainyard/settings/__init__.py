"""Typed settings of stacks."""

from trainyard.settings.cluster import ClusterProvider
from trainyard.settings.loader import load_stack, parse_stack
from trainyard.settings.stack import StackSettings

__all__ = ["ClusterProvider", "StackSettings", "load_stack", "parse_stack"]
