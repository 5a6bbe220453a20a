"""Kinds and versions that no API server serves: an object with one would pass every rule unseen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from trainyard.api import MODELS
from trainyard.checks.finding import Finding
from trainyard.policy.check.sources import Manifest

_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_API_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SERVED: Final = {(version.partition("/")[0], kind): version for version, kind in MODELS}
"""API version by group and kind of what the platform serves itself."""
_OWN_GROUPS: Final = frozenset(group for group, _ in _SERVED)


class KindNames:
    """Finds kinds that are written wrong.

    Parameters
    ----------
    known
        Groups and kinds that rules evaluate.
    """

    def __init__(self, known: Iterable[tuple[str, str]]) -> None:
        self._kinds = {(group, kind.lower()): kind for group, kind in (*known, *_SERVED)}

    def findings(self, manifest: Manifest) -> Iterator[Finding]:
        """Yield an error if the API server serves no such kind."""
        version, kind, group = str(manifest.body["apiVersion"]), manifest.kind, manifest.group
        if not _API_VERSION.fullmatch(version):
            yield Finding("apiVersion", f"{version!r} is not an API version", "write group/version, in lower case")
            return
        meant = self._kinds.get((group, kind.lower()))
        if not _KIND.fullmatch(kind):
            yield Finding("kind", f"{kind!r} is not a kind", "write it with letters and digits")
        elif meant not in (None, kind):
            yield Finding("kind", f"{group or 'the core API'} has no kind {kind!r}", f"write {meant}")
        elif (served := _SERVED.get((group, kind))) not in (None, version):
            yield Finding("apiVersion", f"{version!r} is not served", f"write {served}")
        elif meant is None and group in _OWN_GROUPS and not kind.endswith("List"):
            kinds = sorted(name for each, name in _SERVED if each == group)
            yield Finding("kind", f"{group} has no kind {kind!r}", f"write one of {', '.join(kinds)}")
