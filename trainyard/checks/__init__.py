"""Findings, rules and report formats of all checks."""
