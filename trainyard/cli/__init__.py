"""The command line: one module a command group, no logic of its own."""

from trainyard.cli.app import main

__all__ = ["main"]
