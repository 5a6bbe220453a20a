"""Typed settings of stacks."""
