"""Context of a check: tenants, platform and runtimes. Inputs take precedence over the stack's settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from trainyard.api import Body, Platform, parse
from trainyard.api.constants import (
    API_VERSION,
    CLUSTER_TRAINING_RUNTIME,
    PLATFORM_API_VERSION,
    PLATFORM_NAME,
    SYSTEM_PRIORITY_CLASSES,
    TENANT_POLICY_NAME,
    TRAINING_RUNTIME,
)
from trainyard.errors import TrainyardError
from trainyard.jobs.render.platform_facts import context_of
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.submission import RUNTIME_MODELS, SentRuntime, read_runtime
from trainyard.jobs.runtimes.runtime_lint import DomainCapacities
from trainyard.policy.check.sources import Manifest
from trainyard.policy.stack_objects import namespace_labels, platform_object, runtime_catalogs, tenant_policy
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.sections.volcano import VolcanoSettings
from trainyard.settings.stack import StackSettings

DEFAULT_NAMESPACE: Final = "default"

Value = TypeVar("Value")


@dataclass(frozen=True)
class FoundRuntime(SentRuntime):
    """A runtime of the inputs or the catalog.

    Parameters
    ----------
    file
        File of the runtime.
    """

    file: Path | None = None

    @property
    def name(self) -> str:
        """The runtime's name."""
        metadata = self.body.get("metadata")
        return str(metadata.get("name")) if isinstance(metadata, dict) else ""


class _Nearest(Generic[Value]):
    """Values by key; of several, the one with the nearest file, because folders are environments."""

    def __init__(self) -> None:
        self._values: dict[object, list[tuple[Path | None, Value]]] = {}

    def put(self, key: object, file: Path | None, value: Value) -> None:
        self._values.setdefault(key, []).append((file, value))

    def get(self, key: object, file: Path | None) -> tuple[Path | None, Value] | None:
        found = self._values.get(key)
        if not found:
            return None
        return found[0] if len(found) == 1 else max(found, key=lambda entry: _nearness(entry[0], file))

    def keys(self) -> Iterable[object]:
        return self._values.keys()


class CheckContext:
    """Context of a check.

    Parameters
    ----------
    settings
        The stack's settings; None without a stack.
    manifests
        All manifests that were read.
    """

    def __init__(self, settings: StackSettings | None, manifests: Iterable[Manifest] = ()) -> None:
        self._settings = settings
        self._tenants: _Nearest[Body | None] = _Nearest()
        self._platforms: _Nearest[Body | None] = _Nearest()
        self._namespaces: _Nearest[dict[str, str]] = _Nearest()
        self._runtimes: _Nearest[Manifest] = _Nearest()
        self._found: dict[int, FoundRuntime] = {}
        self._classes: set[str] = set()
        self._contexts: dict[object, RenderContext] = {}
        for manifest in manifests:
            self._add(manifest)

    def _add(self, manifest: Manifest) -> None:
        version, kind, file = manifest.body["apiVersion"], manifest.kind, manifest.source.path
        namespace = manifest.namespace or DEFAULT_NAMESPACE
        spec = manifest.body.get("spec")
        if is_runtime(manifest):
            key = kind, namespace if kind == TRAINING_RUNTIME else "", manifest.name
            self._runtimes.put(key, file, manifest)
        elif version == PLATFORM_API_VERSION and kind == "TenantPolicy" and manifest.name == TENANT_POLICY_NAME:
            self._tenants.put(namespace, file, spec if isinstance(spec, dict) else None)
        elif version == PLATFORM_API_VERSION and kind == "Platform" and manifest.name == PLATFORM_NAME:
            self._platforms.put(None, file, spec if isinstance(spec, dict) else None)
        elif version == "v1" and kind == "Namespace":
            labels = manifest.metadata.get("labels")
            self._namespaces.put(manifest.name, file, _texts(labels))
        elif manifest.group == "scheduling.k8s.io" and kind == "PriorityClass":
            self._classes.add(manifest.name)

    def found(self, manifest: Manifest) -> FoundRuntime:
        """Return the parsed runtime of a manifest, cached."""
        key = id(manifest.body)
        if key not in self._found:
            self._found[key] = self._read(manifest.body, manifest.source.path)
        return self._found[key]

    def _read(self, body: Body, file: Path | None) -> FoundRuntime:
        context = context_of(_parsed(self.platform(file)[1]), RenderContext())
        read = read_runtime(body, job_set_gates=context.job_set_gates)
        return FoundRuntime(read.body, read.runtime, read.errors, read.warnings, file)

    def platform(self, file: Path | None) -> tuple[Path | None, Body | None]:
        """Return the file of the Platform, and its spec."""
        return self._platforms.get(None, file) or (None, self._platform)

    def tenant_policy(self, namespace: str, file: Path | None) -> tuple[Path | None, Body | None]:
        """Return the file of a namespace's TenantPolicy, and its spec."""
        return self._tenants.get(namespace, file) or (None, self._tenant_policies.get(namespace))

    def namespace_labels(self, namespace: str, file: Path | None) -> tuple[Path | None, Mapping[str, str]]:
        """Return the file of a namespace, and its labels."""
        found = self._namespaces.get(namespace, file)
        if found is not None:
            return found
        tenant = self._settings.active_tenants.get(namespace) if self._settings else None
        return None, namespace_labels(namespace, tenant) if tenant else {}

    def runtime(self, kind: str, namespace: str, name: str, file: Path | None) -> FoundRuntime | None:
        """Return a runtime of the inputs, else of the catalog; None if it does not exist."""
        found = self._runtimes.get((kind, namespace if kind == TRAINING_RUNTIME else "", name), file)
        if found is not None:
            return self.found(found[1])
        if kind != CLUSTER_TRAINING_RUNTIME or name not in self._catalog:
            return None
        path, body = self._catalog[name]
        if isinstance(body, FoundRuntime):
            return body
        self._catalog[name] = path, (known := self._read(body, path))
        return known

    def context(self, namespace: str, file: Path | None) -> RenderContext:
        """Return the render context of a namespace's jobs."""
        where, policy = self.tenant_policy(namespace, file)
        origin, platform = self.platform(file)
        key = namespace, where, origin
        if key not in self._contexts:
            queue, stack = (policy or {}).get("defaultQueue"), self._settings
            context = RenderContext(
                default_queue=queue if isinstance(queue, str) else None,
                priority_classes=self._priority_classes,
                volcano_version=VolcanoSettings.of(stack).version if stack else None,
                coscheduling_scheduler=TrainerSettings.of(stack).coscheduling_scheduler if stack else None,
            )
            self._contexts[key] = context_of(_parsed(platform), context)
        return self._contexts[key]

    @cached_property
    def _platform(self) -> Body | None:
        return platform_object(self._settings)["spec"] if self._settings else None

    @cached_property
    def _tenant_policies(self) -> dict[str, Body]:
        tenants = self._settings.active_tenants if self._settings else {}
        return {name: tenant_policy(name, settings)["spec"] for name, settings in tenants.items()}

    @cached_property
    def _priority_classes(self) -> frozenset[str] | None:
        """Existing classes; None if unknown: a cluster may have more than some files declare."""
        if self._settings is None and not self._classes:
            return None
        declared = self._settings.priority_classes if self._settings else ()
        return frozenset((*declared, *self._classes, *SYSTEM_PRIORITY_CLASSES))

    @cached_property
    def _catalog(self) -> dict[str, tuple[Path | None, Body | FoundRuntime]]:
        from trainyard.jobs.runtimes.installed_catalog import installed_catalog

        wanted = (self._settings.runtimes.include, self._settings.runtimes.mirrors) if self._settings else ()
        catalog = installed_catalog(runtime_catalogs(self._settings), *wanted)
        return {body["metadata"]["name"]: (version.path, body) for version, body in catalog.sources()}

    @cached_property
    def capacities(self) -> DomainCapacities | None:
        """Capacities of the fabric's domains; None without a stack or fabric."""
        if self._settings is None or not self._settings.fabric.domains:
            return None
        return DomainCapacities.of(compile_fabric(self._settings.fabric))


def is_runtime(manifest: Manifest) -> bool:
    """Return whether a manifest is a TrainingRuntime or ClusterTrainingRuntime."""
    return bool(manifest.body["apiVersion"] == API_VERSION and manifest.kind in RUNTIME_MODELS)


def _parsed(spec: Body | None) -> Platform | None:
    if spec is None:
        return None
    try:
        return parse(Platform, {"metadata": {"name": PLATFORM_NAME}, "spec": spec})
    except TrainyardError:
        return None


def _texts(labels: Any) -> dict[str, str]:
    if not isinstance(labels, dict):
        return {}
    return {str(key): str(value) for key, value in labels.items()}


def _nearness(file: Path | None, asking: Path | None) -> int:
    if file is None or asking is None:
        return 10**6 if file is asking else -1
    if file == asking:
        return 10**6
    return len(os.path.commonpath([file.absolute(), asking.absolute()]))
