"""Families of causes: each is one module with a ``FAMILY``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.discovery import plugins_of
from trainyard.insight.explain.cause import Cause, Family

FAMILIES: Final[Mapping[str, Family]] = plugins_of(__name__, __path__, "FAMILY", Family)
"""Families by name, in the order of the documentation."""

CAUSES: Final[Mapping[str, Cause]] = {cause.id: cause for family in FAMILIES.values() for cause in family.causes}
"""Causes by identifier."""
