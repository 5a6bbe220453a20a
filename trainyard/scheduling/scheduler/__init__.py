"""Volcano scheduler configuration: typed, with a reason for each line, and linted."""
