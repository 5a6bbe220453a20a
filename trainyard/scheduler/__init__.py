"""Volcano scheduler configuration: typed, with a reason for each line, and linted."""

from trainyard.scheduler.configuration_lint import DROPPING_RULES, lint
from trainyard.scheduler.presets import preset
from trainyard.scheduler.scheduler_configuration import Action, Plugin, SchedulerConfiguration
from trainyard.scheduler.stack_configuration import check_stack, configuration, effective_configuration

__all__ = [
    "DROPPING_RULES",
    "Action",
    "Plugin",
    "SchedulerConfiguration",
    "check_stack",
    "configuration",
    "effective_configuration",
    "lint",
    "preset",
]
