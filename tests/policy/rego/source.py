"""Rego text as tokens, rule bodies and statements: as much grammar as is needed to change a rule in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
    | (?P<text>"(?:[^"\\\n]|\\.)*")
    | (?P<raw>`[^`]*`)
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<operator>:=|==|!=|<=|>=|[-<>=+*/%&|])
    | (?P<mark>[][{}().,;:])
    | (?P<newline>\n)
    """,
    re.VERBOSE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_NO_RULE = ("package", "import")


@dataclass(frozen=True)
class Token:
    """A piece of the text and where it stands."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Statement:
    """One line of a body: the tokens from ``first`` to ``last``, both belonging to it.

    ``rest_end`` is the last token of that body.
    """

    first: int
    last: int
    rest_end: int


class Source:
    """One Rego file, formatted as ``opa fmt`` does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [
            Token(str(found.lastgroup), found.group(), found.start())
            for found in _TOKEN.finditer(text)
            if found.lastgroup != "comment"
        ]
        self.partner = dict(self._partners())

    def line(self, offset: int) -> tuple[int, str]:
        """Return the number and the stripped text of the line at an offset."""
        begin = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return self.text.count("\n", 0, offset) + 1, self.text[begin : len(self.text) if end < 0 else end].strip()

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the offsets of tokens, the last one included."""
        return self.tokens[first].start, self.tokens[last].end

    def is_(self, index: int, *texts: str) -> bool:
        """Tell whether a token exists and is one of some texts."""
        return 0 <= index < len(self.tokens) and self.tokens[index].text in texts

    @cached_property
    def statements(self) -> list[Statement]:
        """Every statement of every body, outer ones before inner ones."""
        return [statement for begin, end in self._bodies() for statement in self._divided(begin, end)]

    @cached_property
    def clauses(self) -> list[tuple[int, int]]:
        """First and last token of every definition at the top level, packages and imports left out."""
        starts = [
            index
            for index, token in enumerate(self.tokens)
            if token.kind == "name"
            and token.text != "else"
            and (token.start == 0 or self.text[token.start - 1] == "\n")
        ]
        found = []
        for number, index in enumerate(starts):
            last = (starts[number + 1] if number + 1 < len(starts) else len(self.tokens)) - 1
            while self.tokens[last].kind == "newline":
                last -= 1
            if self.tokens[index].text not in _NO_RULE:
                found.append((index, last))
        return found

    def arguments(self, opening: int) -> list[tuple[int, int]]:
        """Return the first and last token of each argument after an opening parenthesis."""
        found, begin, index, end = [], opening + 1, opening + 1, self.partner[opening]
        while index <= end:
            if index == end or self.is_(index, ","):
                tokens = [each for each in range(begin, index) if self.tokens[each].kind != "newline"]
                if tokens:
                    found.append((tokens[0], tokens[-1]))
                begin = index + 1
            index = self.skipped(index)
        return found

    def skipped(self, index: int) -> int:
        """Return the token after this one, or after the bracket that it opens."""
        return self.partner.get(index, index) + 1

    def _partners(self) -> Iterator[tuple[int, int]]:
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.text in _PAIRS:
                opened.append(index)
            elif token.text in _PAIRS.values():
                yield opened.pop(), index

    def _bodies(self) -> list[tuple[int, int]]:
        """Return the first token of each body and the one after its last."""
        found: list[tuple[int, int]] = []
        braces: set[int] = set()
        for index, token in enumerate(self.tokens):
            if token.kind != "name" or token.text not in ("if", "every"):
                continue
            brace = index + 1 if self.is_(index + 1, "{") else None
            if token.text == "every":
                brace = self.last_brace(index + 1)
            if brace is None:
                found.append((index + 1, self._line_end(index + 1)))
            else:
                braces.add(brace)
                found.append((brace + 1, self.partner[brace]))
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.text in _PAIRS:
                opened.append(index)
            elif token.text in _PAIRS.values():
                opened.pop()
            elif token.text == "|" and opened and opened[-1] not in braces and not self.is_(opened[-1], "("):
                found.append((index + 1, self.partner[opened[-1]]))
        return sorted(found)

    def last_brace(self, index: int) -> int:
        """Return the last brace that is opened in the rest of a line."""
        brace = index
        while self.tokens[index].kind != "newline":
            if self.is_(index, "{"):
                brace = index
            index = self.skipped(index)
        return brace

    def _line_end(self, index: int) -> int:
        while index < len(self.tokens) and self.tokens[index].kind != "newline" and not self.is_(index, "else"):
            index = self.skipped(index)
        return index

    def _divided(self, begin: int, end: int) -> Iterator[Statement]:
        spans: list[tuple[int, int]] = []
        index = first = begin
        while index <= end:
            if index == end or self.tokens[index].kind == "newline" or self.is_(index, ";"):
                if index > first:
                    spans.append((first, index - 1))
                first = index + 1
            index = self.skipped(index) if index < end else index + 1
        for start, last in spans:
            yield Statement(start, last, spans[-1][1])
