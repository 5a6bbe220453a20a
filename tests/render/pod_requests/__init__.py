"""Requests of generated pods, recorded from Kubernetes' own function."""
