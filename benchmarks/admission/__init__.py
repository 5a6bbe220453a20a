"""Latency that admission policies add to the API server: none, Trainyard's, and Gatekeeper's with the same rules."""
