"""Text that controls neither a terminal, nor a log, nor a CI runner, whatever tenants and manifests name.

`printable` makes a value one line, `printable_lines` keeps lines and tabs, and `printable_output` is for whole outputs,
which CI runners search for commands. Letters of every script stay.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_JOINERS: Final = "\u200c\u200d"
"""Invisible, but part of the spelling in Persian and in Indic scripts."""
WORKFLOW_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:)|#(?=#(?:vso)?\[)", re.MULTILINE)
"""GitHub reads ``::`` at the start of a line, and ``##[`` anywhere; Azure Pipelines reads ``##vso[``."""
_COLOR: Final = re.compile(r"((?:\x1b\[(?!8m)[0-9;]*m)+)")
_CLEAR: Final = re.compile(r"\r?\x1b\[2K")
_MARKDOWN: Final = re.compile(r"([\\`*\[\]<>|&])")


def is_printable(line: str) -> bool:
    """Return whether a line has no control characters, line breaks, or marks that reorder text."""
    return line.isprintable() or all(sign.isprintable() or sign in _JOINERS for sign in line)


def printable(line: str) -> str:
    """Replace control characters, line breaks and marks that reorder text with spaces."""
    if line.isprintable():
        return line
    return "".join(sign if sign.isprintable() or sign in _JOINERS else " " for sign in line)


def printable_lines(text: str) -> str:
    """Replace control characters and marks that reorder text with spaces; lines and tabs stay."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def printable_output(text: str) -> str:
    """Return printable lines without commands of CI runners."""
    return WORKFLOW_COMMAND.sub(lambda command: f"{command.group()} ", printable_lines(text))


def json_text(document: Any, *, indent: int | None = 2, ascii_only: bool = True) -> str:
    """Return a value as JSON that is printable and means the same: other characters are escaped."""
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    if not ascii_only or "\x7f" in text:
        text = "\n".join("".join(map(_escaped, line)) if not is_printable(line) else line for line in text.split("\n"))
    return text.replace("##[", "#\\u0023[").replace("##vso[", "#\\u0023vso[")


def markdown(value: str) -> str:
    """Return a value as literal text of a Markdown line or cell."""
    return _MARKDOWN.sub(r"\\\1", printable(value))


def log_line(text: str) -> str:
    """Return a log record whose further lines, as those of a traceback, are indented: they cannot pass for records."""
    return printable_output(text.rstrip("\n")).replace("\n", "\n    ")


class PrintableStream:
    """Output stream that writes printable text only.

    Colors, and the progress line at the start of a write, pass if the stream is a terminal.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._terminal = bool(stream.isatty())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text, made printable."""
        start, parts = "", [text]
        if self._terminal and "\x1b" in text:
            clear = _CLEAR.match(text)
            start = clear.group() if clear else ""
            parts = _COLOR.split(text[len(start) :])
        shown = (part if number % 2 else printable_output(part) for number, part in enumerate(parts))
        self._stream.write(start + "".join(shown))
        return len(text)

    def write_commands(self, text: str) -> None:
        """Write lines that may be workflow commands."""
        self._stream.write("\n".join(map(printable, text.split("\n"))))

    def writelines(self, lines: Any) -> None:
        """Write all lines."""
        for line in lines:
            self.write(line)


def _escaped(sign: str) -> str:
    return sign if is_printable(sign) else json.dumps(sign).strip('"') if sign != "\x7f" else "\\u007f"
