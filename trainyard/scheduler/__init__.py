"""The Volcano scheduler's configuration: typed, with a reason for each line, and linted."""

from trainyard.scheduler.lint import lint
from trainyard.scheduler.model import Action, Plugin, SchedulerConfiguration
from trainyard.scheduler.presets import preset
from trainyard.scheduler.stack import check_stack, configuration, in_force

__all__ = [
    "Action",
    "Plugin",
    "SchedulerConfiguration",
    "check_stack",
    "configuration",
    "in_force",
    "lint",
    "preset",
]
