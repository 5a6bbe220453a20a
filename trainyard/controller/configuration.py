"""The controller's configuration file."""

from __future__ import annotations

import math
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from trainyard.manifests.files import read_text
from trainyard.manifests.loader import load
from trainyard.problem import Problem, TrainyardError
from trainyard.render import COSCHEDULING_SCHEDULER
from trainyard.settings.platform import PolicySettings

__all__ = [
    "CERTIFICATE_AUTHORITY_SECRET",
    "SERVING_SECRET",
    "WEBHOOK_TIMEOUT_SECONDS",
    "Certificate",
    "Configuration",
    "LeaderElection",
    "Listener",
    "PolicyServer",
]

SERVING_SECRET = "kubeflow-trainer-webhook-cert"  # noqa: S105 - a name
CERTIFICATE_AUTHORITY_SECRET = "trainyard-webhook-ca"  # noqa: S105 - a name
WEBHOOK_TIMEOUT_SECONDS = 10
"""Time the API server waits for a webhook; requests that have begun get as much when the process stops."""
_TO_SPARE_SECONDS = 5


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Listener(_Model):
    """Where a server listens."""

    host: str = Field(default="0.0.0.0", description="Address to listen on")  # noqa: S104 - a pod's own address
    port: int = Field(ge=0, le=65535, description="Port; 0 picks a free one")


class Certificate(_Model):
    """One webhook server's certificate: the Secret it is kept in and who has to trust it."""

    secret: str = Field(min_length=1, description="Name of the Secret (keys tls.crt, tls.key, ca.crt)")
    namespace: str = Field(min_length=1, description="Namespace of the Secret")
    dns_names: tuple[str, ...] = Field(default=(), description="DNS names the certificate is for")
    ip_addresses: tuple[str, ...] = Field(default=(), description="IP addresses the certificate is for")
    mutating_webhook_configurations: tuple[str, ...] = Field(
        default=(), description="Configurations that get the caBundle"
    )
    validating_webhook_configurations: tuple[str, ...] = Field(
        default=(), description="Configurations that get the caBundle"
    )


class LeaderElection(_Model):
    """The Lease that says which replica acts."""

    enabled: bool | None = Field(
        default=None, description="Default: on, but off without webhooks (one process in the foreground)"
    )
    lease: str = Field(
        default="trainer.kubeflow.org", description="Name of the Lease; shared with upstream's controller"
    )
    lease_seconds: float = Field(default=15, gt=0, description="Time after which others may take over")
    renew_seconds: float = Field(
        default=10, gt=0, description="Time after which the leader gives up when it cannot renew"
    )
    retry_seconds: float = Field(default=2, gt=0, description="Time between attempts")


class PolicyServer(_Model):
    """The policy server beside the controller, which judges TrainJobs, runtimes and the objects made of them."""

    socket: Path = Field(description="Unix socket of the server")
    bundle: Path = Field(description="Archive of the rules that the server has; its content is checked at the start")
    revision: str = Field(min_length=1, description="Revision of these rules; answers from others do not count")
    settings: PolicySettings = Field(default=PolicySettings(), description="States, parameters and exemptions of rules")
    exempt_namespaces: tuple[str, ...] = Field(default=(), description="Namespaces of the platform")
    told: tuple[str, ...] = Field(
        default=(),
        description="Rules that the API server judges too: it warns of the object itself, the webhook not again",
    )
    timeout_seconds: float = Field(
        default=5, gt=0, le=8, description="Time for one decision; less than the API server waits for the webhook"
    )


class Configuration(_Model):
    """What one controller process does and where it listens."""

    namespace: str = Field(
        default="kubeflow-system", description="Namespace of the controller, its Lease and its Secrets"
    )
    webhook: Listener = Field(default=Listener(port=9443), description="Admission webhook server (TLS)")
    health: Listener = Field(default=Listener(port=8081), description="/healthz and /readyz")
    metrics: Listener = Field(
        default=Listener(port=8443), description="/metrics; TLS with the webhook certificate where there is one"
    )
    workers: int = Field(default=16, ge=1, le=256, description="TrainJobs reconciled at the same time")
    webhooks: bool = Field(default=True, description="Serve admission webhooks and manage certificates")
    shutdown_delay_seconds: float = Field(
        default=8,
        ge=0,
        le=60,
        description="Time for which webhooks are served after SIGTERM, not ready any more: until every API server and "
        "proxy has learned of it",
    )
    serving_secret: str = Field(
        default=SERVING_SECRET, description="Secret of the controller's own serving certificate"
    )
    authority_secret: str = Field(
        default=CERTIFICATE_AUTHORITY_SECRET, description="Secret of the certificate authority"
    )
    certificates: tuple[Certificate, ...] = Field(default=(), description="Certificates the leader makes and renews")
    policy: PolicyServer | None = Field(
        default=None, description="Policy server that webhooks and reconcile loop ask; without one, policies are off"
    )
    leader_election: LeaderElection = Field(default=LeaderElection(), description="Leader election")
    coscheduling_scheduler: str = Field(
        default=COSCHEDULING_SCHEDULER,
        min_length=1,
        description="Scheduler that runs the coscheduling plug-in, for gangs whose runtime names none",
    )
    volcano_version: str | None = Field(
        default=None,
        pattern=r"^v?\d+\.\d+",
        description="Version of Volcano where it is not one that is installed here",
    )

    @property
    def elects(self) -> bool:
        """Whether replicas elect a leader."""
        chosen = self.leader_election.enabled
        return self.webhooks if chosen is None else chosen

    @property
    def termination_grace_seconds(self) -> int:
        """Time between SIGTERM and SIGKILL: the delay, the requests that have begun, and some to spare."""
        return math.ceil(self.shutdown_delay_seconds) + WEBHOOK_TIMEOUT_SECONDS + _TO_SPARE_SECONDS

    @classmethod
    def load(cls, path: Path) -> Configuration:
        """Read a configuration file.

        Raises
        ------
        TrainyardError
            With every wrong field, if the file is not a valid configuration.
        """
        document = load(read_text(path), f"configuration {path}", fix="Write it with `trainyard up`") or {}
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            problems = [Problem(".".join(map(str, issue["loc"])), issue["msg"]) for issue in error.errors()]
            raise TrainyardError(
                f"configuration {path} is not valid", problems=problems, fix="Correct these fields"
            ) from error

    def as_yaml(self) -> str:
        """Return the file that `load` reads."""
        body = self.model_dump(by_alias=True, exclude_defaults=True, mode="json")
        return yaml.safe_dump(body, sort_keys=True)
