"""A component of the test: one file, with its settings, makes it known everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pulumi
from trainyard.settings.sections.cache import CacheSettings

from .common.declaration import Declaration, Resources, WebhookServer
from .common.installation import Installation
from .common.objects import Component
from .common.program_deployments import declare_program
from .common.target import Target
from .common.workload import Workload, namespace

_SECRET, _SERVICE = "cache-webhook-cert", "cache-webhook"


@dataclass(frozen=True)
class CacheArgs:
    """Arguments of the Cache component."""

    settings: CacheSettings
    target: Target


class Cache(Component):
    """A cache of datasets."""

    def __init__(self, name: str, args: CacheArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("cache", name, opts)
        settings, target = args.settings, args.target
        home = self.child(namespace(settings.namespace))
        self.namespaces = {settings.namespace: home}
        webhooks = [self.child(each, depends_on=[home]) for each in webhook_configurations(settings, target)]
        shelf = {
            "apiVersion": "cache.example.com/v1",
            "kind": "Shelf",
            "metadata": {"name": "shelf"},
            "spec": {"shards": settings.shards},
        }
        manager = declare_program(self, _workload(settings, target), depends_on=[home])
        self.ready = [*webhooks, manager, self.child(shelf)]
        self.register_outputs({})


def webhook_configurations(settings: CacheSettings, target: Target) -> Iterable[dict[str, Any]]:
    """Return the webhook configuration of the cache."""
    client_config = {"service": {"name": _SERVICE, "namespace": settings.namespace, "path": "/shelves"}}
    yield {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "cache-shelves"},
        "webhooks": [{"name": "shelves.cache.example.com", "clientConfig": client_config}],
    }


def _workload(settings: CacheSettings, target: Target) -> Workload:
    return Workload(
        name="cache",
        namespace=settings.namespace,
        pods=target.pods,
        program="cache",
        image=target.images.reference("cache", "v1"),
        command=("/cache",),
        args=(),
        replicas=1,
        ports={"health": 8081},
        readiness={"httpGet": {"path": "/readyz", "port": "health"}},
        liveness={"httpGet": {"path": "/healthz", "port": "health"}},
        memory=("128Mi", "1Gi"),
    )


def _install(context: Installation, needed: Resources) -> Cache:
    args = CacheArgs(CacheSettings.of(context.settings), context.target)
    return Cache("cache", args, context.options_after(*needed.ready))


COMPONENT = Declaration(
    name="cache",
    order=100,
    install=_install,
    needs=("topology",),
    images={"cache": "registry.example.com/cache"},
    manifests=("deploy/cache.yaml",),
    cluster_kinds={("cache.example.com/v1", "Shelf"): "shelves"},
    webhooks=WebhookServer(secret=_SECRET, service=_SERVICE, configurations=webhook_configurations),
)
