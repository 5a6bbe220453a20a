"""Replay a scenario (fleet, queues, jobs, events, expectations) on a real control plane with the real scheduler."""
