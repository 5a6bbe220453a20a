"""Text of tenants and manifests in every output: no control characters, forged lines, or workflow commands."""

from __future__ import annotations

import io
import json

import pytest

from trainyard.checks.printable_text import (
    PrintableStream,
    json_text,
    log_line,
    markdown,
    printable,
    printable_lines,
    printable_output,
)

HOSTILE = [
    "\x1b[2J",
    "\x1b]0;title\a",
    "\x1b]8;;http://example.com\x1b\\link",
    "\x9b31m",
    "\x7f",
    "a\rb",
    *("a\u2028b", "a\u2029b", "a\x85b", "a\x0bb", "a\x0cb"),
    *(f"a{chr(sign)}b" for sign in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)),
    *("\ufeff", "\U000e0041", "\ud800"),
]
LETTERS = ["Größe", "模型 训练", "модель", "می‌خواهم", "क्ष", "e\u0301", "🚂", "→ ✗ ▸ …"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_stays(text: str) -> None:
    for shown in (printable(text), printable_lines(text), printable_output(text), markdown(text), log_line(text)):
        assert shown.isprintable(), ascii(shown)
    for ascii_only in (True, False):
        written = json_text({text: text}, ascii_only=ascii_only)
        assert all(line.isprintable() for line in written.split("\n")), ascii(written)
        assert json.loads(written) == {text: text}


@pytest.mark.parametrize("text", LETTERS)
def test_letters_of_every_script_stay(text: str) -> None:
    assert printable(text) == printable_lines(text) == text
    assert json.loads(json_text(text, ascii_only=False)) == text


@pytest.mark.parametrize(
    "text",
    [
        "::add-mask::x",
        "  ::stop-commands::x",
        "\t::set-output name=a::b",
        "x\n::error file=a::b",
        "\x1b::error::b",
        "\u2028::error::b",
        "a ##[add-mask]b",
        "##vso[task.setvariable variable=x]y",
        "###[group]",
    ],
)
def test_no_line_is_a_workflow_command(text: str) -> None:
    for shown in (printable_output(text), log_line(text), json_text(text)):
        assert not any(line.lstrip().startswith("::") for line in shown.split("\n")), shown
        assert "##[" not in shown, shown
        assert "##vso[" not in shown, shown
    assert json.loads(json_text(text)) == text


def test_a_value_of_markdown_is_literal() -> None:
    hostile = "<img src=x> [a](http://b) `c` | **d**\n# e"
    assert markdown(hostile) == r"\<img src=x\> \[a\](http://b) \`c\` \| \*\*d\*\* # e"


def test_a_log_record_has_one_line_at_the_margin() -> None:
    assert log_line("created a\n2026-01-01 INFO forged") == "created a\n    2026-01-01 INFO forged"


class Terminal(io.StringIO):
    """Stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return true."""
        return True


def test_a_stream_has_colors_and_progress_on_terminals_alone() -> None:
    text = "\r\x1b[2K\x1b[1mbold\x1b[0m\x1b[8mhidden\x1b]0;title\a\n"
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        assert PrintableStream(stream).write(text) == len(text)
    assert terminal.getvalue() == "\r\x1b[2K\x1b[1mbold\x1b[0m [8mhidden ]0;title \n"
    assert file.getvalue() == "   [2K [1mbold [0m [8mhidden ]0;title \n"[1:]
