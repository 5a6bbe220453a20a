"""Volcano scheduler configuration: typed, with a reason for each line, and linted."""

from trainyard.scheduling.scheduler.configuration_lint import DROPPING_RULES, lint
from trainyard.scheduling.scheduler.presets import preset
from trainyard.scheduling.scheduler.scheduler_configuration import Action, Plugin, SchedulerConfiguration
from trainyard.scheduling.scheduler.stack_configuration import check_stack, configuration, effective_configuration

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
