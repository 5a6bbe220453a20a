"""Runs the program against a monitor that records every registration: inputs, parent, edges, protection."""

from __future__ import annotations

import asyncio
import copy
import json
import runpy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.proto.source_pb2 import StackTrace

from components.common.job_set_definition import custom_resource_definition
from components.common.objects import KubernetesObject
from components.stack import open_stack
from components.volcano import custom_resource_definitions
from trainyard.api.crds import build
from trainyard.cluster_state.queues import LiveQueues
from trainyard.data import data_folder
from trainyard.jobs.runtimes.catalog import Catalog, Runtime
from trainyard.jobs.runtimes.installed_catalog import installed_catalog
from trainyard.kube.api_errors import ApiError
from trainyard.kube.resource import Object, Resource
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.takeover.former_objects import FormerObject
from trainyard.platform.takeover.takeover import Observation, address_of
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.rules.rule_catalog import load_rules

ROOT = Path(__file__).resolve().parents[2]
PORTS = {"vc-webhook-manager": 20001, "jobset": 20002, "trainyard-controller": 20003, "kueue": 20004}


@dataclass(frozen=True)
class Registered:
    """One resource as the program registered it."""

    urn: str
    type: str
    name: str
    custom: bool
    inputs: Mapping[str, Any]
    parent: str
    dependencies: frozenset[str]
    protect: bool
    retain: bool
    deleted_with: str
    provider: str
    hooks: frozenset[str]
    aliases: tuple[tuple[str, str], ...] = ()
    """Type and name of each resource that it succeeds."""
    alias_urns: tuple[str, ...] = ()
    """URN of each resource that it succeeds, where it is given as such."""
    import_id: str = ""
    ignored: tuple[str, ...] = ()
    """Fields whose changes are ignored."""
    replaced_for: tuple[str, ...] = ()
    """Fields with which it is deleted and created again."""

    @property
    def label(self) -> str:
        return self.name

    @property
    def patch(self) -> bool:
        """Whether it sets fields of an object that others make."""
        return self.type.endswith("Patch")


@dataclass
class Recording:
    """Every resource of one run, by URN, with the edges followed."""

    resources: dict[str, Registered] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Registered outputs of components, by URN."""

    @property
    def objects(self) -> list[Registered]:
        return [each for each in self.resources.values() if each.type.startswith("kubernetes:")]

    def of(self, kind: str) -> list[Registered]:
        return [each for each in self.objects if each.inputs["kind"] == kind]

    def one(self, name: str) -> Registered:
        return next(each for each in self.objects if each.name == name)

    def before(self, resource: Registered) -> set[str]:
        """Names of everything that comes, directly or not, before a resource."""
        seen: set[str] = set()
        pending = list(resource.dependencies)
        while pending:
            urn = pending.pop()
            if urn not in seen:
                seen.add(urn)
                pending.extend(self.resources[urn].dependencies if urn in self.resources else ())
        return {self.resources[urn].name for urn in seen if urn in self.resources}


class _Echo(Mocks):
    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: Any) -> dict[str, Any]:
        return {}


class _Monitor(MockMonitor):
    def __init__(self, recording: Recording) -> None:
        super().__init__(_Echo())
        self._recording = recording

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802
        self._recording.outputs[request.urn] = rpc.deserialize_properties(request.outputs)
        return super().RegisterResourceOutputs(request)

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        response = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self._recording.resources[response.urn] = Registered(
                urn=response.urn,
                type=request.type,
                name=request.name,
                custom=request.custom,
                inputs=_plain(rpc.deserialize_properties(request.object, keep_unknowns=True)),
                parent=request.parent,
                dependencies=frozenset(request.dependencies),
                protect=request.protect,
                retain=request.retainOnDelete,
                deleted_with=request.deletedWith,
                provider=request.provider,
                hooks=frozenset([*request.hooks.before_create, *request.hooks.before_update]),
                aliases=tuple((each.spec.type, each.spec.name) for each in request.aliases),
                alias_urns=tuple(each.urn for each in request.aliases if each.urn),
                import_id=request.importId,
                ignored=tuple(request.ignoreChanges),
                replaced_for=tuple(request.replaceOnChanges) if request.deleteBeforeReplace else (),
            )
        return response


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Trimmed(KubernetesObject):
    """Leaves out the schemas of CustomResourceDefinitions and the variables of policies: both take long to send."""

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        if manifest["kind"] == "CustomResourceDefinition":
            versions = [{**version, "schema": {}} for version in manifest["spec"]["versions"]]
            manifest = {**manifest, "spec": {**manifest["spec"], "versions": versions}}
        if manifest["kind"] == "ValidatingAdmissionPolicy":
            manifest = {**manifest, "spec": {**manifest["spec"], "variables": []}}
        super().__init__(name, manifest, opts)


_rules = cache(load_rules)
_job_set_definition = cache(custom_resource_definition)
_volcano_definitions = cache(custom_resource_definitions)
_bundle = cache(lambda *folders: build_bundle(*folders, rules=_rules(data_folder("policies"), *folders)))


_BUILT: list[tuple[Mapping[str, Any], list[dict[str, Any]]]] = []
"""CustomResourceDefinitions of the trainer, by that of JobSet, which contains their schemas."""


def _definitions(job_set_definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of the trainer, of which only the schemas take time."""
    for of, built in _BUILT:
        if of is job_set_definition:
            return built
    _BUILT.append((job_set_definition, build(job_set_definition)))
    return _BUILT[-1][1]


_CATALOGS: dict[str, Catalog] = {}


def _catalog(
    folders: Sequence[Path], include: Sequence[str], mirrors: Mapping[str, str], authored: Iterable[Runtime]
) -> Catalog:
    """Return the catalog of runtimes, whose files take long to read."""
    authored = list(authored)
    if authored:
        return installed_catalog(folders, include, mirrors, authored)
    key = repr((folders, include, mirrors))
    if key not in _CATALOGS:
        _CATALOGS[key] = installed_catalog(folders, include, mirrors)
    return _CATALOGS[key]


class _Callbacks:
    """Takes hooks and never calls them."""

    def register_resource_hook(self, hook: pulumi.ResourceHook) -> None:
        pass


class FakeReader:
    """A cluster whose objects become what is declared, except those whose dry run fails, by address."""

    def __init__(self, errors: Mapping[tuple[str, str, str, str], ApiError], parts: Sequence[Object]) -> None:
        self._errors = errors
        self._parts = parts

    def __enter__(self) -> FakeReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def observe(self, resource: Resource, declared: Mapping[str, Any]) -> Observation:
        metadata = {"uid": f"uid-of-{declared['metadata']['name']}", **declared["metadata"]}
        live = {**declared, "metadata": {**metadata, "labels": {}}}
        return Observation(live, dict(declared), self._errors.get(address_of(declared)))

    def parts(self, namespaces: Collection[str]) -> list[Object]:
        return list(self._parts)

    def find(self, resource: Resource, name: str) -> Object | None:
        """Return an object that is patched: it is there, and the stack has not written it yet."""
        return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": {"weight": 7}, "status": {}}


class FakeProvider:
    """A cluster that only says how it would be reached."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def access(self) -> ClusterAccess:
        return self._access

    def keep_access(self) -> None:
        pass


def embedded_access() -> ClusterAccess:
    return ClusterAccess("local", Path("/clusters/local/kubeconfig"), None, PORTS)


def service_access() -> ClusterAccess:
    return ClusterAccess("prod", Path("/home/me/.kube/config"), "prod", None)


def stack_config(stack: str = "local", **changes: Any) -> dict[str, Any]:
    """Return the settings of a stack file, some of them changed."""
    return {**copy.deepcopy(_settings_of(stack)), **changes}


@cache
def _settings_of(stack: str) -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    return {key.removeprefix("trainyard:"): value for key, value in document["config"].items()}


def _whole_program() -> None:
    runpy.run_path(str(ROOT / "stacks" / "__main__.py"), run_name="__main__")


def start() -> None:
    """Run the part of the program that validates the stack, before anything is declared."""
    with open_stack():
        pass


def record(
    config: Mapping[str, Any],
    monkeypatch: Any,
    *,
    access: ClusterAccess | None = None,
    live: Any = None,
    queues: LiveQueues | None = None,
    errors: Mapping[tuple[str, str, str, str], ApiError] | None = None,
    parts: Sequence[Object] = (),
    preview: bool = False,
    stack: str = "local",
    project: str = "trainyard",
    program: Callable[[], object] = _whole_program,
    policies: bool = False,
    schemas: bool = False,
    planned: Callable[[Any, Any], Any] = lambda _access, _read: (),
    recorded: Callable[[Sequence[FormerObject]], None] = lambda _objects: None,
    forgotten: Callable[[Sequence[str]], None] = lambda _queues: None,
) -> Recording:
    """Run stacks/__main__.py and return what it registered.

    Parameters
    ----------
    config
        Settings by key.
    access
        How the cluster is reached; embedded when absent.
    live
        The objects that exist already; None when the cluster is not looked at.
    queues
        The queues that exist, with their jobs; none when absent.
    errors
        Errors of the dry runs of objects that exist already, by address.
    parts
        Other parts of the installation that exists already.
    project
        Project of the program.
    program
        What is run instead.
    policies
        Whether the admission policies are declared, which are half of all objects.
    schemas
        Whether CustomResourceDefinitions have their schemas and policies their variables, which take longer.
    planned
        Returns the writes of a hook before the update, from the function that reads the cluster.
    recorded
        Receives the objects that are recorded before their takeover.
    forgotten
        Receives the queues that are deleted, and removed from the record.
    """
    import components.common.objects
    import components.common.policy_server
    import components.hooks.migration
    import components.jobset
    import components.policies
    import components.preparation
    import components.runtimes
    import components.stack
    import components.trainer
    import components.volcano

    recording = Recording()
    if not schemas:
        monkeypatch.setattr(components.common.objects, "KubernetesObject", _Trimmed)
    # The rules do not change between runs, and reading them takes a quarter of each.
    monkeypatch.setattr(components.policies, "load_rules", _rules)
    monkeypatch.setattr(components.common.policy_server, "load_rules", _rules)
    if not policies:
        monkeypatch.setattr(components.policies, "admission_objects", lambda *_, **__: [])
    monkeypatch.setattr(components.common.policy_server, "build_bundle", lambda *folders, rules: _bundle(*folders))
    # Nor do upstream's CustomResourceDefinitions and the runtimes, whose parsing takes as long.
    monkeypatch.setattr(components.jobset, "custom_resource_definition", _job_set_definition)
    monkeypatch.setattr(components.trainer, "custom_resource_definition", _job_set_definition)
    monkeypatch.setattr(components.volcano, "custom_resource_definitions", _volcano_definitions)
    monkeypatch.setattr(components.trainer, "build", _definitions)
    monkeypatch.setattr(components.runtimes, "installed_catalog", _catalog)
    monkeypatch.setattr(components.stack, "provider", lambda *_: FakeProvider(access or embedded_access()))
    monkeypatch.setattr(components.preparation, "list_live_objects", lambda *_: live)
    monkeypatch.setattr(components.cluster_comparison, "list_live_objects", lambda *_: live)
    monkeypatch.setattr(components.cluster_comparison, "check_existing", lambda *_: None)
    monkeypatch.setattr(components.hooks.migration, "run_with_client", planned)
    monkeypatch.setattr(components.preparation, "read_schemas", lambda *_: {})
    monkeypatch.setattr(components.preparation, "record_former_objects", lambda _access, _stack, found: recorded(found))
    monkeypatch.setattr(components.preparation, "forget_former_queues", lambda _access, _stack, found: forgotten(found))
    monkeypatch.setattr(components.preparation, "TakeoverReader", lambda *_: FakeReader(errors or {}, parts))
    set_mocks(_Echo(), project=project, stack=stack, preview=preview, monitor=_Monitor(recording))
    monkeypatch.setattr(pulumi.runtime.settings.SETTINGS, "callbacks", _Callbacks())
    monkeypatch.setattr(components.cluster_comparison, "live_queues", lambda *_: queues or LiveQueues())
    # The place where each resource was made is not read here, and below pytest the stacks are deep.
    monkeypatch.setattr("pulumi.runtime.resource._get_stack_trace", StackTrace)
    pulumi.runtime.set_all_config(
        {f"trainyard:{key}": value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    )

    try:
        pulumi.runtime.test(program)()
    finally:
        _settle()
    return recording


def _settle() -> None:
    """Let the registrations of a failed run end, which would otherwise end in the next run of this event loop."""
    loop = asyncio.get_event_loop()
    while pending := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    pulumi.runtime.settings._get_rpc_manager().clear()
    pulumi.runtime.settings.SETTINGS.outputs.clear()
