"""Readers of a live cluster, for the pure packages."""

from trainyard.live.platform import PlatformView, read_platform
from trainyard.live.train_jobs import finished_condition, gang_nodes, run_train_job

__all__ = ["PlatformView", "finished_condition", "gang_nodes", "read_platform", "run_train_job"]
