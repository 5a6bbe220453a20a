"""Trainyard beside the real Kueue."""
