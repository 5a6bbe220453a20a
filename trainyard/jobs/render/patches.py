"""Runtime patches (v2.2 and later): their changes, and validation of their managers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import RuntimePatch, TrainJobSpec
from trainyard.api.constants import KUEUE_MANAGERS
from trainyard.api.kubernetes_model import EmbeddedMetadata
from trainyard.checks.finding import Finding
from trainyard.jobs.render.dns import is_http_path, is_subdomain
from trainyard.jobs.render.job_changes import Generation, ReplicatedJobChange
from trainyard.jobs.render.pod_editing import stored

RUNTIME_PATCHES: Final = Generation("runtimePatches", "replicated job", bounded=True)
_POD: Final = "template.spec.template.spec"


def runtime_patches(spec: TrainJobSpec) -> Iterator[ReplicatedJobChange]:
    """Yield the changes of replicatedJobs."""
    for index, patch in enumerate(spec.runtime_patches or ()):
        template = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        jobs = template.spec.replicated_jobs if template and template.spec else None
        by_kueue = patch.manager.startswith(KUEUE_MANAGERS)
        base = f"{RUNTIME_PATCHES.path}[{index}].trainingRuntimeSpec.template.spec.replicatedJobs"
        for position, job in enumerate(jobs or ()):
            body = stored(job.template) if job.template else {}
            yield ReplicatedJobChange(RUNTIME_PATCHES, f"{base}[{position}].{_POD}", job.name, body, by_kueue)


def patched_metadata(spec: TrainJobSpec) -> Iterator[EmbeddedMetadata]:
    """Yield the JobSet metadata of the patches, in order."""
    for patch in spec.runtime_patches or ():
        template = patch.training_runtime_spec.template if patch.training_runtime_spec else None
        if template and template.metadata:
            yield template.metadata


def check_managers(spec: TrainJobSpec) -> Iterator[Finding]:
    """Yield managers that are not domain-prefixed paths."""
    for patch in spec.runtime_patches or ():
        yield from _manager_errors(patch)


def _manager_errors(patch: RuntimePatch) -> Iterator[Finding]:
    path = f"{RUNTIME_PATCHES.path}.manager"
    domain, slash, rest = patch.manager.partition("/")
    fix = 'use a domain and a path, such as "acme.io/team"'
    if not slash or not domain or not rest:
        yield Finding(path, f'{patch.manager!r} must be a domain-prefixed path (such as "acme.io/foo")', fix)
        return
    if not is_subdomain(domain):
        yield Finding(path, f"{domain!r} is not an RFC 1123 subdomain", fix)
    if not is_http_path(rest):
        yield Finding(path, f"{rest!r} is not a path", fix)
