"""Write values as YAML that Kubernetes reads as the same values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

from trainyard.manifests.nodes import PREFIX, TEXT
from trainyard.manifests.scalars import is_ambiguous

__all__ = ["dump", "dump_all"]

_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH: Final = 120
_NOT_TEXT: Final = f"{PREFIX}null"


def dump(value: Any, *, flow: bool | None = False, sort_keys: bool = False, width: float = _WIDTH) -> str:
    """Return a value as one YAML document.

    Parameters
    ----------
    value
        The value: what JSON can say, and dates.
    flow
        Whether mappings and lists are in one line; None for those that hold single values only.
    sort_keys
        Whether keys are sorted; as they are otherwise.
    width
        Columns after which text is wrapped.
    """
    text = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=flow, sort_keys=sort_keys, allow_unicode=True, width=width
    )
    return str(text)


def dump_all(values: Iterable[Any]) -> str:
    """Return values as a stream of YAML documents, each of which begins with ``---``."""
    return str(
        yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=_WIDTH)
    )


class _Dumper(_BASE):  # type: ignore[misc]
    """Writes text of several lines as blocks and lists of numbers in one line, as people would."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out: anchors are hard to read in a manifest."""
        return True

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Return the tag of a node without one; it decides which text is written in quotes."""
        tag = super().resolve(kind, value, implicit)
        plain_text = kind is yaml.ScalarNode and implicit[0] and tag == TEXT
        return _NOT_TEXT if plain_text and is_ambiguous(value) else tag


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar(TEXT, value, style=style)


def _list(dumper: Any, value: list[Any]) -> Any:
    numbers = bool(value) and all(type(item) is int for item in value)
    return dumper.represent_sequence(f"{PREFIX}seq", value, flow_style=numbers or None)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
