"""Checks of a stack's queues before they are applied, with its scheduler and its runtimes.

The queue rules know neither scheduler configurations nor runtimes; this module combines them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.api.constants import API_VERSION
from trainyard.checks.finding import Finding, Severity
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.manifests.loader import load
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import policy_settings, runtime_catalogs
from trainyard.scheduling.queues.capacity import capacity_of
from trainyard.scheduling.queues.fairness_checks import branch_findings
from trainyard.scheduling.queues.paths import ManifestPaths, SettingsPaths
from trainyard.scheduling.queues.queue_bodies import QueueObjects, prove_queues
from trainyard.scheduling.queues.queue_manifests import is_manifest, read_manifests
from trainyard.scheduling.queues.queued_gangs import requires_domain
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, Scheduling, SharePlugin
from trainyard.scheduling.queues.tree_checks import check_queues, check_tree
from trainyard.scheduling.queues.units import queue_tree
from trainyard.scheduling.scheduler.configuration_lint import DROPPING_RULES, lint
from trainyard.scheduling.scheduler.scheduler_configuration import SchedulerConfiguration
from trainyard.scheduling.scheduler.stack_configuration import check_stack as check_scheduler
from trainyard.scheduling.scheduler.stack_configuration import effective_configuration
from trainyard.scheduling.topology.fabric_names import HOSTNAME_LABEL
from trainyard.settings.platform import PolicyState
from trainyard.settings.sections.kueue import KueueSettings
from trainyard.settings.sections.volcano import VolcanoSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import stack_settings

_NODE_CHOICE = {"nodeLabels", "taints"}
"""Parameters of the rule about the nodes that tenants may choose."""


@dataclass(frozen=True)
class CheckOptions:
    """Overrides of the stack's scheduler for a check.

    Parameters
    ----------
    version
        Version of Volcano.
    plugins
        Names of `trainyard.scheduling.queues.Plugin`.
    configuration
        Text of a scheduler configuration.
    """

    version: str | None = None
    plugins: tuple[str, ...] = ()
    configuration: str | None = None

    def apply_to(self, scheduling: Scheduling) -> Scheduling:
        """Return a scheduler with the overrides applied.

        Raises
        ------
        TrainyardError
            The version or a plug-in is unknown, or Volcano would ignore the configuration.
        """
        version = self.version or scheduling.version
        if version not in VOLCANO_VERSIONS:
            raise TrainyardError(f"Volcano {version} is not supported", fix=f"use one of {', '.join(VOLCANO_VERSIONS)}")
        if self.configuration is not None:
            scheduling = read_scheduling(self.configuration, version)
        known = {plugin.value: plugin for plugin in SharePlugin}
        if unknown := [name for name in self.plugins if name not in known]:
            raise TrainyardError(f"Plug-in {unknown[0]!r} does not exist", fix=f"use one of {', '.join(known)}")
        plugins = frozenset(known[name] for name in self.plugins) or scheduling.plugins
        return replace(scheduling, version=version, plugins=plugins)


def check_files(texts: Mapping[str, str], options: CheckOptions, fabric: StackSettings | None = None) -> list[Finding]:
    """Check the queues in files: each stack's settings separately, all manifests together as one tree.

    Parameters
    ----------
    texts
        Text by file name.
    options
        Overrides of the scheduler.
    fabric
        Stack whose fabric and scheduler apply to manifests.

    Raises
    ------
    TrainyardError
        A file is neither, or contains no queues.
    """
    findings: list[Finding] = []
    manifests = {name: text for name, text in texts.items() if is_manifest(text, name)}
    for name, text in texts.items():
        if name not in manifests:
            found = check_stack(stack_settings(load(text, name), source=name), options)
            findings += [replace(finding, file=name) for finding in found]
    if manifests:
        read = read_manifests(manifests)
        capacity = capacity_of(fabric) if fabric else None
        scheduling = stack_scheduling(fabric) if fabric else Scheduling()
        found = check_tree(
            read.queues,
            root=read.root,
            capacity=capacity.total if capacity else None,
            node_groups=capacity.node_groups if capacity else None,
            scheduling=options.apply_to(scheduling),
            paths=ManifestPaths(),
        )
        first = next(iter(manifests))
        findings += [replace(each, file=read.sources.get(each.object, first)) for each in (*read.findings, *found)]
    return findings


def check_stack(settings: StackSettings, options: CheckOptions | None = None) -> list[Finding]:
    """Check the queues of a stack for its scheduler, or another one, and for the runtimes of its tenants."""
    scheduling = (options or CheckOptions()).apply_to(stack_scheduling(settings))
    groups = _pod_groups(settings)
    strict = {name for name, specs in groups.items() if any(map(requires_domain, specs))}
    return check_queues(settings, scheduling=scheduling, gangs=_gangs(groups), strict=strict)


def stack_queues(settings: StackSettings) -> QueueObjects:
    """Return the queues of a stack, validated for its scheduler.

    Raises
    ------
    TrainyardError
        Volcano would reject the tree, or it would stop the scheduler; every finding is listed.
    """
    return prove_queues(settings, scheduling=stack_scheduling(settings))


def unenforced_shares(settings: StackSettings) -> list[Finding]:
    """Return what the scheduler of a stack does not enforce: warnings of its configuration, and limits of Volcano."""
    scheduling = stack_scheduling(settings)
    queues = check_queues(settings, scheduling=scheduling)
    tree = scheduling.tree and scheduling.reclaim
    return [
        *(finding for finding in check_scheduler(settings) if finding.severity is Severity.WARNING),
        *(finding for finding in queues if finding.rule == "queue-share-resources"),
        *(branch_findings(queue_tree(settings), SettingsPaths()) if tree else ()),
    ]


def check_node_labels(settings: StackSettings) -> list[Finding]:
    """Return the node labels and tolerations that Kueue adds to pods and that a rule does not let tenants use."""
    kueue = KueueSettings.of(settings)
    labels: dict[str, str] = {}
    taints: dict[str, str] = {}
    for name, flavor in kueue.flavors.items():
        labels |= {label: f"flavors.{name}.nodeLabels[{label}]" for label in flavor.node_labels}
        levels = kueue.topologies[flavor.topology].levels if flavor.topology else ()
        # With nodes as the last level, Kueue names the node alone, else each level.
        labels |= dict.fromkeys(levels[-1:] + _above_nodes(levels), f"topologies.{flavor.topology}.levels")
        taints |= {each.key: f"flavors.{name}.tolerations[{index}]" for index, each in enumerate(flavor.tolerations)}
    if not (labels or taints) or kueue.install is False:
        return []
    (rule,) = (each for each in load_rules(data_folder("policies")) if each.parameters.keys() >= _NODE_CHOICE)
    if settings.policies.states.get(rule.id, rule.state) in (PolicyState.OFF, PolicyState.AUDIT):
        return []
    parameters = rule.parameter_values(dict(policy_settings(settings, [rule]).parameters.get(rule.id, {})))
    return [
        Finding(
            f"trainyard:kueue.{path}",
            f"rule {rule.id} rejects pods that {verb} {key}",
            f"add {key} to trainyard:policies.parameters.{rule.id}.{name}, which lets tenants {verb} it",
        )
        for name, verb, used in (("nodeLabels", "select nodes by", labels), ("taints", "tolerate", taints))
        for key, path in used.items()
        if key not in _texts(parameters[name])
    ]


def _texts(value: object) -> list[object]:
    assert isinstance(value, list)  # noqa: S101
    return value


def _above_nodes(levels: tuple[str, ...]) -> tuple[str, ...]:
    return () if levels[-1:] == (HOSTNAME_LABEL,) else levels[:-1]


def stack_scheduling(settings: StackSettings) -> Scheduling:
    """Return the scheduler properties of a stack that queue rules read."""
    return scheduling_of(effective_configuration(settings), VolcanoSettings.of(settings).version)


def read_scheduling(text: str, version: str) -> Scheduling:
    """Parse a ``volcano-scheduler.conf``, or the ConfigMap that contains it.

    Raises
    ------
    TrainyardError
        Volcano would ignore the configuration as a whole.
    """
    faults = [finding for finding in lint(text) if finding.rule in DROPPING_RULES]
    if faults:
        raise TrainyardError("The scheduler configuration is invalid", findings=faults)
    return scheduling_of(SchedulerConfiguration.parse(text), version)


def scheduling_of(configuration: SchedulerConfiguration, version: str) -> Scheduling:
    """Return the properties that queue rules read of a configuration, for a version of Volcano."""
    return Scheduling.of(
        (action.name for action in configuration.actions),
        ((plugin.name, plugin.switches) for tier in configuration.tiers for plugin in tier),
        version,
    )


def _gangs(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, str]]:
    gangs = {
        name: {resource: str(amount) for spec in specs for resource, amount in (spec.get("minResources") or {}).items()}
        for name, specs in groups.items()
    }
    return {name: gang for name, gang in gangs.items() if gang}


def _pod_groups(settings: StackSettings) -> dict[str, list[Mapping[str, Any]]]:
    """Return the PodGroup specs of each installed runtime for a TrainJob without overrides."""
    catalog = load_catalog(runtime_catalogs(settings), settings.runtimes.include)
    return {body["metadata"]["name"]: list(_rendered_groups(body)) for body in catalog.objects()}


def _rendered_groups(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    name = body["metadata"]["name"]
    job = parse(
        TrainJob,
        {
            "apiVersion": API_VERSION,
            "kind": "TrainJob",
            "metadata": {"name": "smallest", "namespace": "default"},
            "spec": {"runtimeRef": {"kind": body["kind"], "name": name}},
        },
    )
    answer = render(job, parse(ClusterTrainingRuntime, dict(body)), RenderContext())
    if isinstance(answer, Rendered):
        yield from (each["spec"] for each in answer.objects if each["kind"] == "PodGroup")
