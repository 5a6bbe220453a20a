"""Typed settings of stacks."""

from trainyard.settings.cluster import ClusterProvider
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack, parse_stack

__all__ = ["ClusterProvider", "StackSettings", "load_stack", "parse_stack"]
