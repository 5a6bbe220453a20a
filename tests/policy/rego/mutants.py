"""Mutants of a Rego file: each differs from it in one place, and some case must notice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.policy.rego.source import Source, Statement

_SWAPS = {
    "==": ("!=",), "!=": ("==",), "<": ("<=", ">"), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<"),
    "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "&": ("|",),
    "true": ("false",), "false": ("true",), "null": ("false",),
    "startswith": ("endswith", "contains"), "endswith": ("startswith", "contains"),
    "min": ("max",), "max": ("min",), "lower": ("upper",), "sum": ("count",), "trim_left": ("trim_right",),
    "is_object": ("is_string",), "is_array": ("is_string",), "is_number": ("is_string",), "is_string": ("is_number",),
}  # fmt: skip
_QUANTIFIERS = re.compile(r"(?<!\\)(?:[*+?]|\{\d+(?:,\d*)?\})")
_RANGES = re.compile(r"(?:[a-z]-[a-z]|[A-Z]-[A-Z]|\d-\d)")
_SHOWN = 60


@dataclass(frozen=True)
class Mutant:
    """A file with one change.

    Parameters
    ----------
    file
        The file below ``policies/``.
    number, line
        Where the change is, and the line as it is written.
    change
        What is changed, in words; with file and line it names the mutant.
    text
        The changed file.
    """

    file: str
    number: int
    line: str
    change: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What names the mutant as long as its line stays as it is."""
        return self.file, self.line, self.change

    def __str__(self) -> str:
        return f"policies/{self.file}:{self.number}: {self.change}\n    {self.line}"


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    new: str
    change: str


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return the mutants of a file in the order of their places; no two have the same name."""
    source = Source(text)
    result: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    texts = {text}
    for edit in sorted(_edits(source), key=lambda edit: (edit.start, edit.end, edit.change)):
        changed = text[: edit.start] + edit.new + text[edit.end :]
        if changed in texts:
            continue
        texts.add(changed)
        number, line = source.line(edit.start)
        seen[line, edit.change] += 1
        again = f" ({seen[line, edit.change]})" if seen[line, edit.change] > 1 else ""
        result.append(Mutant(file, number, line, edit.change + again, changed))
    return result


def _edits(source: Source) -> Iterator[_Edit]:
    silent = _messages(source)
    for index, token in enumerate(source.tokens):
        if index in silent or source.is_(_line_start(source, index), "package", "import"):
            continue
        if token.kind in ("operator", "name"):
            yield from _of_word(source, index)
        elif token.kind == "number":
            value = int(token.text)
            for other in (value + 1, value - 1):
                yield _Edit(token.start, token.end, str(other), f"{value} becomes {other}")
        elif token.kind == "text":
            yield _Edit(token.start, token.end, f'{token.text[:-1]}~"', f"{token.text} becomes another text")
        elif token.kind == "raw":
            yield from _of_pattern(token.start, token.text)
    for statement in source.statements:
        yield from _of_statement(source, statement)
    for first, last in source.clauses:
        start, end = source.span(first, last)
        yield _Edit(start, end, "", "without this definition")
    for index in range(len(source.tokens)):
        if source.is_(index, "else"):
            yield from _of_else(source, index)


def _line_start(source: Source, index: int) -> int:
    while index > 0 and source.tokens[index - 1].kind != "newline":
        index -= 1
    return index


def _messages(source: Source) -> set[int]:
    """Return the tokens of texts for people: a golden file holds them."""
    found: set[int] = set()
    for index, token in enumerate(source.tokens):
        if not (token.text == "message" and source.is_(index + 1, ":=")) and not (
            token.text == '"message"' and source.is_(index + 1, ":")
        ):
            continue
        end = index + 2
        while source.tokens[end].kind != "newline" and not source.is_(end, ",", "}"):
            end = source.skipped(end)
        found.update(each for each in range(index + 2, end) if source.tokens[each].kind == "text")
    return found


def _of_word(source: Source, index: int) -> Iterator[_Edit]:
    token = source.tokens[index]
    called = source.is_(index + 1, "(")
    if source.is_(index - 1, ".") and token.kind == "name":
        if not called and (source.is_(index - 2, "]", ")") or _is_value(source, index - 2)):
            yield _Edit(token.start, token.end, f"{token.text}_", f".{token.text} becomes another field")
        if source.is_(index - 2, "array") and token.text == "concat":
            for first, last in source.arguments(index + 1):
                start, end = source.span(first, last)
                yield _Edit(start, end, "[]", f"concat without {_short(source.text[start:end])}")
        if source.is_(index - 2, "object") and token.text == "union":
            (a, b), (c, d) = (source.span(*each) for each in source.arguments(index + 1))
            swapped = source.text[c:d] + source.text[b:c] + source.text[a:b]
            yield _Edit(a, d, swapped, "the other one wins in union")
        return
    if token.text == "contains" and called:
        yield _Edit(token.start, token.end, "startswith", "contains becomes startswith")
    if token.text == "|" and not any(statement.first == index + 1 for statement in source.statements):
        yield _Edit(token.start, token.end, "&", "| becomes &")
    for other in _SWAPS.get(token.text, ()):
        yield _Edit(token.start, token.end, other, f"{token.text} becomes {other}")


def _is_value(source: Source, index: int) -> bool:
    """Tell whether a name is a variable or a field, and no imported package."""
    if not 0 <= index < len(source.tokens) or source.tokens[index].kind != "name":
        return False
    return source.is_(index - 1, ".") or not re.search(
        rf"^import \S*\b{source.tokens[index].text}$", source.text, re.MULTILINE
    )


def _of_pattern(start: int, text: str) -> Iterator[_Edit]:
    if text[1] == "^":
        yield _Edit(start + 1, start + 2, "", "the pattern without ^")
    if text[-2] == "$":
        end = start + len(text) - 1
        yield _Edit(end - 1, end, "", "the pattern without $")
    for found in _QUANTIFIERS.finditer(text):
        if text[found.start() - 1] == "(" or _in_class(text, found.start()):
            continue
        new = {"*": "+", "+": "*", "?": ""}.get(found.group(), "{0}")
        yield _Edit(
            start + found.start(), start + found.end(), new,
            f"{found.group()} at {found.start()} of the pattern becomes {new or 'nothing'}",
        )  # fmt: skip
    for found in _RANGES.finditer(text):
        if _in_class(text, found.start()):
            yield _Edit(
                start + found.start(), start + found.end(), found.group()[0],
                f"{found.group()} at {found.start()} of the pattern becomes {found.group()[0]}",
            )  # fmt: skip


def _in_class(text: str, index: int) -> bool:
    return text.rfind("[", 0, index) > text.rfind("]", 0, index)


def _of_statement(source: Source, statement: Statement) -> Iterator[_Edit]:
    first, last = statement.first, statement.last
    start, end = source.span(first, last)
    text = source.text[start:end]
    yield _Edit(start, end, "true", f"without {_short(text)}")
    words = {source.tokens[each].text for each in _shallow(source, first, last)}
    if source.is_(first, "not"):
        yield _Edit(start, source.tokens[first + 1].start, "", f"{_short(text)} no longer negated")
    elif source.is_(first, "every"):
        brace = source.last_brace(first)
        inner = source.text[source.tokens[brace].end : source.tokens[source.partner[brace]].start]
        head = source.text[source.tokens[first].end : source.tokens[brace].start]
        yield _Edit(start, end, f"some{head}\n{inner.strip()}", f"every becomes some: {_short(text)}")
    elif source.is_(first, "some"):
        if statement.last != statement.rest_end and "in" in words:
            rest = source.tokens[statement.rest_end].end
            head = source.text[source.tokens[first].end : end]
            body = source.text[end:rest].strip().lstrip(";")
            yield _Edit(start, rest, f"every{head} {{\n{body}\n}}", f"some becomes every: {_short(text)}")
    elif ":=" not in words:
        yield _Edit(start, start, "not ", f"not {_short(text)}")


def _shallow(source: Source, first: int, last: int) -> Iterable[int]:
    index = first
    while index <= last:
        yield index
        index = source.skipped(index)


def _of_else(source: Source, index: int) -> Iterator[_Edit]:
    end = index + 1
    while end < len(source.tokens) and not source.is_(end, "else"):
        if source.tokens[end].kind == "newline":
            break
        end = source.skipped(end)
    start, stop = source.span(index, end - 1)
    yield _Edit(start, stop, "", f"without {_short(source.text[start:stop])}")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
