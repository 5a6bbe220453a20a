"""Explanations of jobs, usage of the platform, and the console."""
