"""Kinds that no API server serves, so that no rule evaluates them: in wrong case, and unknown ones of our own API."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trainyard.api import MODELS
from trainyard.checks.finding import Finding
from trainyard.policy.check.sources import Manifest

__all__ = ["unserved"]

_OWN = {api_version.partition("/")[0] for api_version, _ in MODELS}
"""Our API groups, all of whose kinds are known."""


def unserved(manifest: Manifest, kinds: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """Yield a finding about a manifest whose kind is not served.

    Parameters
    ----------
    manifest
        The object.
    kinds
        Groups and kinds that rules evaluate.
    """
    api_version, kind = str(manifest.body["apiVersion"]), manifest.kind
    group, slash, _ = api_version.partition("/")
    if not slash:
        group = ""
    if group in _OWN and (api_version, kind) not in MODELS and not kind.endswith("List"):
        known = sorted(f"{version} {each}" for version, each in MODELS if version.partition("/")[0] == group)
        yield Finding("kind", f"{api_version} {kind} does not exist", f"use one of {', '.join(known)}")
    elif (group, kind) not in kinds:
        for _, name in (each for each in kinds if each[0] == group and each[1].lower() == kind.lower()):
            yield Finding("kind", f"{api_version} {kind} does not exist", f"write {name}")
