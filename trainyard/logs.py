"""Logs whose every record starts at the margin, whatever the values in it say."""

from __future__ import annotations

import logging

from trainyard.checks.printable_text import log_line


def write_logs(level: str | int, pattern: str = "%(asctime)s %(levelname)s %(name)s %(message)s") -> None:
    """Write the records of all loggers to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(pattern))
    logging.basicConfig(level=level, handlers=[handler])


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return log_line(super().format(record))
