"""Runtime patches (v2.2 and later): what they change, and who may call itself their manager."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard.api import RuntimePatch, TrainJobSpec
from trainyard.api.base import EmbeddedMetadata
from trainyard.problem import Problem
from trainyard.render.bodies import stored
from trainyard.render.changes import Change, Generation

__all__ = ["RUNTIME_PATCHES", "check_managers", "patched_metadata", "runtime_patches"]

RUNTIME_PATCHES: Final = Generation("runtimePatches", "replicated job")
_POD: Final = "template.spec.template.spec"
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_LONGEST_SUBDOMAIN: Final = 253


def runtime_patches(spec: TrainJobSpec) -> Iterator[Change]:
    """Yield what the patches change in replicatedJobs."""
    for index, patch in enumerate(spec.runtime_patches or ()):
        template = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        jobs = template.spec.replicated_jobs if template and template.spec else None
        base = f"{RUNTIME_PATCHES.path}[{index}].trainingRuntimeSpec.template.spec.replicatedJobs"
        for position, job in enumerate(jobs or ()):
            body = stored(job.template) if job.template else {}
            yield Change(RUNTIME_PATCHES, f"{base}[{position}].{_POD}", job.name, body)


def patched_metadata(spec: TrainJobSpec) -> Iterator[EmbeddedMetadata]:
    """Yield what the patches put into the metadata of the JobSet."""
    for patch in spec.runtime_patches or ():
        template = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        if template and template.metadata:
            yield template.metadata


def check_managers(spec: TrainJobSpec) -> Iterator[Problem]:
    """Yield managers that are no domain-prefixed path."""
    for patch in spec.runtime_patches or ():
        yield from _manager_faults(patch)


def _manager_faults(patch: RuntimePatch) -> Iterator[Problem]:
    path = f"{RUNTIME_PATCHES.path}.manager"
    domain, slash, rest = patch.manager.partition("/")
    fix = 'use a domain and a path, such as "acme.io/team"'
    if not slash or not domain or not rest:
        yield Problem(path, f'{patch.manager!r} must be a domain-prefixed path (such as "acme.io/foo")', fix)
        return
    if len(domain) > _LONGEST_SUBDOMAIN or not _SUBDOMAIN.fullmatch(domain):
        yield Problem(path, f"{domain!r} is not an RFC 1123 subdomain", fix)
    if not _HTTP_PATH.fullmatch(rest):
        yield Problem(path, f"{rest!r} is not a path", fix)
