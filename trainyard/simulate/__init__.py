"""Replay a scenario (fleet, queues, jobs, events, expectations) on a real control plane with the real scheduler."""

from trainyard.simulate.replay import Replay, replay
from trainyard.simulate.scenario import Scenario, load_scenario
from trainyard.simulate.timeline import Timeline

__all__ = ["Replay", "Scenario", "Timeline", "load_scenario", "replay"]
