"""Context of one stack's components: settings, cluster, provider and conventions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes

from components import jobset, volcano
from components.hooks.queues import Convergence, live_queues, refuse_changes
from components.objects import Conventions, conventions
from components.offline import OFFLINE_KUBECONFIG, access_or_offline
from components.ownership import STACK_LABEL, LiveObjects, Ownership, look
from components.pulumi_internals import Engine
from components.target import Target
from components.trainer import certificate
from trainyard.cluster import ClusterAccess, cluster_name, provider
from trainyard.controller.configuration import Certificate
from trainyard.problem import Problem, TrainyardError
from trainyard.queues import QueueObjects
from trainyard.settings import StackSettings, parse_stack
from trainyard.stack_checks import stack_queues
from trainyard.topology import compile_fabric

__all__ = ["Stack", "open_stack", "prove"]


@dataclass(frozen=True)
class Stack:
    """One stack.

    Parameters
    ----------
    settings
        Its settings.
    target
        The cluster as the components see it.
    options
        Options of every component: the provider.
    live
        The objects that exist already; None when the cluster was not looked at.
    queues
        Its queues, proved.
    convergence
        How the queue tree gets from what it is to what it is to be.
    """

    settings: StackSettings
    target: Target
    options: pulumi.ResourceOptions
    live: LiveObjects | None
    queues: QueueObjects
    convergence: Convergence

    @property
    def live_nodes(self) -> set[str] | None:
        """Names of the cluster's nodes."""
        return None if self.live is None else self.live.names("v1", "Node")

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Certificates that the trainer controller's leader makes for Volcano and JobSet."""
        settings, target = self.settings, self.target
        found = []
        if settings.volcano.install is True:
            mutating, validating = _names(volcano.webhook_configurations(settings.volcano, target))
            home, service = settings.volcano.namespace, volcano.ADMISSION_SERVICE
            found.append(
                certificate(volcano.ADMISSION_SECRET, home, service, target, mutating=mutating, validating=validating)
            )
        if settings.jobset.install is True:
            mutating, validating = _names(jobset.webhook_configurations(settings.jobset, target))
            home, service = settings.jobset.namespace, jobset.JOBSET_SERVICE
            found.append(
                certificate(jobset.JOBSET_SECRET, home, service, target, mutating=mutating, validating=validating)
            )
        return tuple(found)


@contextmanager
def open_stack() -> Iterator[Stack]:
    """Open the stack that Pulumi runs, and reject foreign objects at the end.

    Raises
    ------
    pulumi.RunError
        The settings are wrong, the cluster cannot be reached, or it holds objects of others under our names;
        Pulumi prints its text without a traceback. Nothing is made then, nor after any other error.
    """
    engine = Engine()
    try:
        with _opened() as stack:
            yield stack
    except TrainyardError as error:
        refusal = pulumi.RunError(str(error))
        engine.refuse(refusal)
        raise refusal from error
    except Exception as error:
        engine.refuse(error)
        raise


@contextmanager
def _opened() -> Iterator[Stack]:
    name = pulumi.get_stack()
    settings = _settings(name)
    queues = prove(settings)
    cluster = cluster_name(settings, name)
    access = access_or_offline(provider(settings.cluster, cluster), cluster, settings)
    target = Target.of(settings, access)
    live = _live(access, name, settings) if access.kubeconfig != OFFLINE_KUBECONFIG else None
    ownership = None
    if live is not None:
        ownership = Ownership(live, name, may_adopt=settings.adopt)
    owned = live.owned(name, "scheduling.volcano.sh/v1beta1", "Queue") if live is not None else set()
    if owned:
        refuse_changes(live_queues(access), queues.all, owned)
    kubernetes = pulumi_kubernetes.Provider(
        "kubernetes",
        kubeconfig=str(access.kubeconfig),
        context=access.context,
        cluster_identifier=access.name,
        enable_config_map_mutable=True,
        enable_server_side_apply=True,
        suppress_deprecation_warnings=True,
    )
    labels = {"app.kubernetes.io/managed-by": "trainyard", STACK_LABEL: name}
    with conventions(Conventions(labels, protect=settings.protect, standing=ownership)):
        options = pulumi.ResourceOptions(provider=kubernetes)
        yield Stack(settings, target, options, live, queues, Convergence(access, queues.own, owned))
    if ownership is not None:
        ownership.refuse()


def prove(settings: StackSettings) -> QueueObjects:
    """Refuse settings that cannot work, before anything is declared; return the queues of those that can.

    Raises
    ------
    TrainyardError
        The queue tree or the fabric has faults, or Volcano or JobSet is installed here while the trainer, whose
        controller makes their certificates, is not.
    """
    queues = stack_queues(settings)
    compile_fabric(settings.fabric)
    installed = [name for name in ("volcano", "jobset") if getattr(settings, name).install is True]
    if settings.trainer.install is not True and installed:
        raise TrainyardError(
            "trainyard:trainer is existing, but other components are installed by this program",
            problems=[
                Problem(f"trainyard:{name}.install", "its certificate is made by this program's trainer controller")
                for name in installed
            ],
            fix="set install: existing for these too, or install: true for the trainer",
        )
    return queues


def _settings(stack: str) -> StackSettings:
    config = pulumi.Config("trainyard")
    present = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    keys = [key.removeprefix("trainyard:") for key in present if key.startswith("trainyard:")]
    return parse_stack({key: config.get_object(key) for key in keys}, source=f"Pulumi.{stack}.yaml")


def _live(access: ClusterAccess, name: str, settings: StackSettings) -> LiveObjects | None:
    own = (settings.volcano.namespace, settings.jobset.namespace, settings.trainer.namespace)
    try:
        return look(access, name, {*own, *settings.tenants})
    except TrainyardError as error:
        if not pulumi.runtime.is_dry_run():
            raise
        pulumi.log.warn(f"Nothing is known of objects that exist already: {error}")
        return None


def _names(configurations: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    names: dict[str, list[str]] = {"MutatingWebhookConfiguration": [], "ValidatingWebhookConfiguration": []}
    for each in configurations:
        names[each["kind"]].append(each["metadata"]["name"])
    return names["MutatingWebhookConfiguration"], names["ValidatingWebhookConfiguration"]
