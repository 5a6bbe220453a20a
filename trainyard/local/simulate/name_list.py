"""One name or a list of names, as written in a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""Names of nodes and domains, or names and patterns (``filler-*``) of jobs; a string or a list."""
