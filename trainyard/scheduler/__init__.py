"""The Volcano scheduler's configuration: typed, with a reason for each line, and linted."""

from trainyard.scheduler.lint import lint
from trainyard.scheduler.model import Action, Plugin, SchedulerConfiguration
from trainyard.scheduler.presets import configuration, preset

__all__ = ["Action", "Plugin", "SchedulerConfiguration", "configuration", "lint", "preset"]
