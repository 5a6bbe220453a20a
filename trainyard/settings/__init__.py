"""Typed settings of stacks."""

from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack, parse_stack

__all__ = ["StackSettings", "load_stack", "parse_stack"]
