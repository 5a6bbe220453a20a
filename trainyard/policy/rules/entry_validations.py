"""Validations of entries: the shorthand ``each`` of rule.yaml.

Most rules collect violations as a list of entries, each with its field path. ``each`` names the variable with the list;
the expression, the joined paths and the joined values are generated from it when the rule is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = re.compile(r"[a-z][A-Za-z]*")
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_ENTRY: Final = re.compile(r"\bentry\b")


def expand_entries(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a validation with ``expression``, ``paths`` and ``values`` of all entries.

    Parameters
    ----------
    document
        ``each`` is the variable, and ``unless`` a CEL expression that allows all entries. ``paths`` (by default
        ``entry.path``) and ``values`` are CEL expressions of one ``entry``; a value that does not read it is constant.

    Raises
    ------
    ValueError
        A field is invalid, or has no meaning beside ``each``.
    """
    result = dict(document)
    each, unless = result.pop("each"), result.pop("unless", None)
    if not isinstance(each, str) or not _NAME.fullmatch(each):
        raise ValueError("each must be the name of a variable, such as named")
    if unless is not None and not isinstance(unless, str):
        raise ValueError("unless must be a CEL expression")
    if given := {"expression", "path"} & result.keys():
        raise ValueError(f"a validation with each cannot have {' or '.join(sorted(given))}; use unless and paths")
    result["expression"] = f"variables.{each}.size() == 0" + (f" || {unless}" if unless else "")
    result["paths"] = _joined(each, result.get("paths", "entry.path"))
    if isinstance(values := result.get("values"), Mapping):
        result["values"] = {
            name: _joined(each, value) if _reads_entry(value) else value for name, value in values.items()
        }
    return result


def _joined(variable: str, expression: Any) -> Any:
    """Return the expression of all entries; a value of another type is left to the model."""
    if not isinstance(expression, str):
        return expression
    listed = f"variables.{variable}" + ("" if expression == "entry" else f".map(entry, {expression})")
    return f'{listed}.join(", ")'


def _reads_entry(value: Any) -> bool:
    return isinstance(value, str) and _ENTRY.search(_TEXT.sub("", value)) is not None
