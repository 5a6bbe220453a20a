"""Findings, rules and report formats of every check."""
