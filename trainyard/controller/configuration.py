"""Configuration file of the controller."""

from __future__ import annotations

import math
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.listening import ANY_ADDRESS
from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.settings.platform import PolicySettings
from trainyard.settings.sections.trainer import CONTROLLER_NAMESPACE

SERVING_SECRET = "kubeflow-trainer-webhook-cert"  # noqa: S105 - a name
CERTIFICATE_AUTHORITY_SECRET = "trainyard-webhook-ca"  # noqa: S105 - a name
WEBHOOK_TIMEOUT_SECONDS = 10
"""Timeout of webhook calls; also the time for open requests to finish at shutdown."""
_MARGIN_SECONDS = 5


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Listener(_Model):
    """Listen address of a server."""

    host: str = Field(default=ANY_ADDRESS, description="Address to listen on; empty: all of both families")
    port: int = Field(ge=0, le=65535, description="Port; 0 picks a free one")


class Certificate(_Model):
    """Certificate of a webhook server: its Secret and the webhook configurations that get its caBundle."""

    secret: str = Field(min_length=1, description="Name of the Secret (keys tls.crt, tls.key, ca.crt)")
    namespace: str = Field(min_length=1, description="Namespace of the Secret")
    dns_names: tuple[str, ...] = Field(default=(), description="DNS names of the certificate")
    ip_addresses: tuple[str, ...] = Field(default=(), description="IP addresses of the certificate")
    deployment: str = Field(
        default="",
        description="Deployment whose pods read the certificate only when they start; a renewal replaces them",
    )
    mutating_webhook_configurations: tuple[str, ...] = Field(
        default=(), description="MutatingWebhookConfigurations that get the caBundle"
    )
    validating_webhook_configurations: tuple[str, ...] = Field(
        default=(), description="ValidatingWebhookConfigurations that get the caBundle"
    )


class WebhookClients(_Model):
    """Certificates with which an API server authenticates itself to webhooks."""

    authority: str = Field(min_length=1, description="Certificates of the authorities that issue them (PEM)")
    names: tuple[str, ...] = Field(default=(), description="Common names, one of which it has; empty: any")


class LeaderElection(_Model):
    """Leader election by a Lease."""

    enabled: bool | None = Field(
        default=None, description="Elect a leader; unset: enabled, except without webhooks (one foreground process)"
    )
    lease: str = Field(
        default="trainer.kubeflow.org", description="Name of the Lease, the same as of upstream's controller"
    )
    lease_seconds: float = Field(default=15, gt=0, description="Lease duration")
    renew_seconds: float = Field(
        default=10, gt=0, description="Renew deadline: the leader stops when it has not renewed for this time"
    )
    retry_seconds: float = Field(default=2, gt=0, description="Retry period")


class PolicyServer(_Model):
    """Policy server (OPA) that reviews TrainJobs, runtimes and the rendered objects."""

    socket: Path = Field(description="Unix socket of the policy server")
    bundle: Path = Field(description="Bundle of rules loaded by the policy server; verified at the start")
    revision: str = Field(min_length=1, description="Revision of the bundle; decisions of other revisions are rejected")
    settings: PolicySettings = Field(default=PolicySettings(), description="Rule states, parameters and exemptions")
    exempt_namespaces: tuple[str, ...] = Field(default=(), description="Platform namespaces, exempt from tenant rules")
    told: tuple[str, ...] = Field(
        default=(),
        description="Rules that the API server evaluates too: the webhook omits their warnings, which would repeat",
    )
    timeout_seconds: float = Field(
        default=5, gt=0, le=8, description="Timeout of one decision, shorter than the webhook timeout"
    )


class Configuration(_Model):
    """Configuration of a controller process."""

    namespace: str = Field(
        default=CONTROLLER_NAMESPACE, description="Namespace of the controller, its Lease and its Secrets"
    )
    webhook: Listener = Field(default=Listener(port=9443), description="Admission webhook server (TLS)")
    health: Listener = Field(default=Listener(port=8081), description="/healthz and /readyz")
    metrics: Listener = Field(
        default=Listener(port=8443),
        description="/metrics, and /metrics/opa of the policy server; with webhooks: TLS with their certificate, and a "
        "token of a user who may get the path",
    )
    workers: int = Field(default=16, ge=1, le=256, description="Concurrent reconciliations of TrainJobs")
    webhooks: bool = Field(default=True, description="Serve admission webhooks and manage certificates")
    shutdown_delay_seconds: float = Field(
        default=8,
        ge=0,
        le=60,
        description="Time for which webhooks are served after SIGTERM while the pod is not ready, so that all API "
        "servers and proxies remove it from their endpoints",
    )
    serving_secret: str = Field(
        default=SERVING_SECRET, description="Secret of the controller's own serving certificate"
    )
    authority_secret: str = Field(
        default=CERTIFICATE_AUTHORITY_SECRET, description="Secret of the certificate authority"
    )
    certificate_seconds: float = Field(
        default=90 * 86_400, ge=10, description="Lifetime of webhook certificates, renewed after two thirds; for tests"
    )
    certificates: tuple[Certificate, ...] = Field(
        default=(), description="Certificates that the leader issues and renews"
    )
    webhook_clients: WebhookClients | None = Field(
        default=None,
        description="Certificates of the API server, without which no review is answered; unset: every review is, and "
        "the answers quote no runtime and no TenantPolicy of a namespace",
    )
    policy: PolicyServer | None = Field(
        default=None, description="Policy server of webhooks and reconciler; unset: policies are off"
    )
    usage: bool = Field(default=False, description="Record the device-hours of all jobs in ConfigMaps of the namespace")
    leader_election: LeaderElection = Field(default=LeaderElection(), description="Leader election")
    coscheduling_scheduler: str | None = Field(
        default=None,
        min_length=1,
        description="Second scheduler with the coscheduling plug-in, for gangs whose runtime sets none; unset: the "
        "default scheduler has the plug-in",
    )
    volcano_version: str | None = Field(
        default=None,
        pattern=r"^v?\d+\.\d+",
        description="Version of a Volcano that this platform did not install",
    )

    @property
    def elects(self) -> bool:
        """Whether replicas elect a leader."""
        chosen = self.leader_election.enabled
        return self.webhooks if chosen is None else chosen

    @property
    def termination_grace_seconds(self) -> int:
        """Seconds between SIGTERM and SIGKILL: shutdown delay, open requests, and a margin."""
        return math.ceil(self.shutdown_delay_seconds) + WEBHOOK_TIMEOUT_SECONDS + _MARGIN_SECONDS

    @classmethod
    def load(cls, path: Path) -> Configuration:
        """Read a configuration file.

        Raises
        ------
        TrainyardError
            If the file is invalid; lists every invalid field.
        """
        document = load(read_text(path), f"configuration {path}", fix="Write it with `trainyard up`") or {}
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            findings = [Finding(".".join(map(str, issue["loc"])), issue["msg"]) for issue in error.errors()]
            raise TrainyardError(
                f"configuration {path} is not valid", findings=findings, fix="Correct these fields"
            ) from error

    def as_yaml(self) -> str:
        """Return the YAML that `load` reads."""
        body = self.model_dump(by_alias=True, exclude_defaults=True, mode="json")
        return yaml.safe_dump(body, sort_keys=True)
