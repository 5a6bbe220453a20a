"""The command line: one module per command group, without logic of its own."""

from trainyard.cli.app import main

__all__ = ["main"]
