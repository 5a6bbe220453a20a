"""Compose YAML into nodes with line numbers and bounded depth; the only module that runs the YAML parser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from trainyard.errors import TrainyardError

FIX: Final = "correct the YAML"
PREFIX: Final = "tag:yaml.org,2002:"
PLAIN: Final = "plain"
"""Tag of an unquoted scalar without an explicit tag."""
TEXT, MAPPING, SEQUENCE = f"{PREFIX}str", f"{PREFIX}map", f"{PREFIX}seq"
_MAX_DEPTH: Final = 200
"""Levels of nesting: more than any object has, few enough for recursive readers."""


class InvalidYamlError(TrainyardError):
    """Text that is not valid YAML, or has no equivalent in JSON.

    Parameters
    ----------
    source
        Name of the source.
    reason
        What is invalid, with the value.
    line
        Line of the text; None: unknown.
    fix
        What to do.
    syntax
        Whether no YAML parser reads the text, as that of a template.
    """

    def __init__(
        self, source: str, reason: str, line: int | None = None, fix: str = FIX, *, syntax: bool = False
    ) -> None:
        self.syntax = syntax
        self.reason = f"{reason} (line {line})" if line else reason
        self.line = line or 1
        super().__init__(f"{source} is not valid YAML: {self.reason}", fix=fix)

    @classmethod
    def of(cls, error: Exception, source: str, fix: str) -> InvalidYamlError:
        """Convert an error of the YAML library."""
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        parts = (getattr(error, "context", None), getattr(error, "problem", None))
        reason = ", ".join(filter(None, parts)) or " ".join(str(error).split())
        syntax = isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError | InvalidKeyError)
        return cls(source, reason, mark.line + 1 if mark else None, fix, syntax=syntax)


def compose_all(text: str, source: str = "the text", *, fix: str = FIX) -> Iterator[yaml.Node]:
    """Yield the node graph of each document: positions and scalars as written, without their values.

    Parameters
    ----------
    text
        YAML or JSON.
    source
        Name of the source in errors.
    fix
        Fix of the errors.

    Raises
    ------
    InvalidYamlError
        The text is neither; documents before the error were already yielded.
    """
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            yield loader.get_node()
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidYamlError.of(error, source, fix) from error
    finally:
        if loader is not None:
            loader.dispose()


class InvalidKeyError(yaml.constructor.ConstructorError):
    """Key that is a mapping or a list, as ``{{ .Values.name }}`` is read."""


def error_at(node: yaml.Node, reason: str) -> yaml.YAMLError:
    """Return a YAML error at the position of a node."""
    return yaml.constructor.ConstructorError(None, None, reason, node.start_mark)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes of bounded depth; the tag of a scalar only tells whether it is quoted."""

    depth = 0

    def resolve(self, kind: type[yaml.Node], _value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return PLAIN if implicit[0] else TEXT
        return MAPPING if kind is yaml.MappingNode else SEQUENCE

    def descend_resolver(self, parent: yaml.Node | None, _index: Any) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH and parent is not None:
            raise error_at(parent, f"more than {_MAX_DEPTH} levels of nesting")

    def ascend_resolver(self) -> None:
        self.depth -= 1
