"""Sections of a stack's settings: each is one module with a ``SECTION``, for a component of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.discovery import plugins_of
from trainyard.settings.sections.base import Section

SECTIONS: Final[Mapping[str, Section]] = plugins_of(__name__, __path__, "SECTION", Section)
"""Sections by their key."""
