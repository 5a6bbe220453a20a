"""Printable text: lines without control characters, so that objects and files cannot control the terminal."""

from __future__ import annotations

__all__ = ["printable", "printable_lines"]


def printable(line: str) -> str:
    """Replace control characters and line breaks with spaces, so that manifests cannot control the terminal."""
    return line if line.isprintable() else "".join(sign if sign.isprintable() else " " for sign in line)


def printable_lines(text: str) -> str:
    """Replace control characters with spaces, but keep the lines of a text."""
    return "\n".join(map(printable, text.split("\n")))
