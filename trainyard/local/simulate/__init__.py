"""Replay a scenario (fleet, queues, jobs, events, expectations) on a real control plane with the real scheduler."""

from trainyard.local.simulate.replay import Replay, replay
from trainyard.local.simulate.scenario import Scenario, load_scenario
from trainyard.local.simulate.timeline import Timeline

__all__ = ["Replay", "Scenario", "Timeline", "load_scenario", "replay"]
