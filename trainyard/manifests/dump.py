"""Serialize values as YAML that Kubernetes parses to the same values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

from trainyard.checks.printable_text import WORKFLOW_COMMAND, is_printable, printable
from trainyard.manifests.nodes import PREFIX, TEXT
from trainyard.manifests.scalars import is_ambiguous

_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH: Final = 120
_NOT_TEXT: Final = f"{PREFIX}null"
_COMMAND: Final = re.compile(r"(?:^|\s)::|##(?:vso)?\[")
"""What CI runners read as a command where a line of the YAML begins with it, or has it."""


def comment(text: str) -> str:
    """Return a text as one line of YAML that is a comment whatever it contains."""
    return f"# {' '.join(printable(text).split())}\n"


def dump(value: Any, *, flow: bool | None = False, sort_keys: bool = False, width: float = _WIDTH) -> str:
    """Return a value as one YAML document.

    Parameters
    ----------
    value
        A JSON value; dates are supported too.
    flow
        Whether mappings and lists use flow style; None: only those without nested collections.
    sort_keys
        Whether keys are sorted instead of kept in order.
    width
        Column at which text is wrapped.
    """
    text = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=flow, sort_keys=sort_keys, allow_unicode=True, width=width
    )
    return _escaped(str(text))


def dump_all(values: Iterable[Any]) -> str:
    """Return values as YAML documents, each of which starts with ``---``."""
    text = yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=_WIDTH)
    return _escaped(str(text))


class _Dumper(_BASE):  # type: ignore[misc]
    """Writes multi-line text as block scalars and lists of integers in flow style."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never write anchors: they are hard to read in a manifest."""
        return True

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Return the implicit tag of a node; a tag other than text forces quotes around ambiguous text."""
        tag = super().resolve(kind, value, implicit)
        plain_text = kind is yaml.ScalarNode and implicit[0] and tag == TEXT
        return _NOT_TEXT if plain_text and is_ambiguous(value) else tag


def _is_unsafe(value: str) -> bool:
    return not all(map(is_printable, re.split("[\n\t]", value))) or _COMMAND.search(value) is not None


def _escaped(text: str) -> str:
    """Escape what reaches a terminal or a CI runner as other than text; such values are in double quotes."""
    lines = text.split("\n")
    shown = "\n".join(line if is_printable(line) else "".join(map(_escaped_sign, line)) for line in lines)
    return WORKFLOW_COMMAND.sub(lambda found: f"{found.group(1) or ''}\\x{ord(found.group()[-1]):02X}", shown)


def _escaped_sign(sign: str) -> str:
    if sign == "\t" or is_printable(sign):
        return sign
    return f"\\U{ord(sign):08X}"


def _text(dumper: Any, value: str) -> Any:
    # In quotes, `_escaped` can write any character.
    style = '"' if _is_unsafe(value) else "|" if "\n" in value else None
    return dumper.represent_scalar(TEXT, value, style=style)


def _list(dumper: Any, value: list[Any]) -> Any:
    numbers = bool(value) and all(type(item) is int for item in value)
    return dumper.represent_sequence(f"{PREFIX}seq", value, flow_style=numbers or None)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
