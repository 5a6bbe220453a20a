"""The tenant queue tree: proved against the rules of the Volcano version, then written as Queue objects."""

from trainyard.queues.checks import check_queues, check_tree
from trainyard.queues.drawing import draw
from trainyard.queues.objects import queue_objects
from trainyard.queues.rules import RULES, Rule, Severity, severity

__all__ = ["RULES", "Rule", "Severity", "check_queues", "check_tree", "draw", "queue_objects", "severity"]
