"""The policy server: OPA as a sidecar of the controller, reached through a Unix socket inside the pod.

The rules are in an immutable ConfigMap whose name contains their hash. A change of rules is therefore a new ConfigMap
and a roll-out, and each replica uses the rules that it was started with. The server has no credentials and allows
queries only.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.controller.configuration import WEBHOOK_TIMEOUT_SECONDS, PolicyServer
from trainyard.errors import TrainyardError
from trainyard.policy.engines.opa.bundle import build_bundle, bundle_files
from trainyard.policy.engines.opa.local_server import METRICS_TOKEN, SOCKET_AUTHORIZATION
from trainyard.policy.engines.vap.validating_admission_policies import rule_state
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import policy_settings, rule_catalogs
from trainyard.settings.platform import PolicyState
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.versions import PROGRAMS

from .pod_settings import OPA_LOG
from .target import Target
from .workload import ConfigVolume, Container, ScratchVolume

_RULES = "/etc/trainyard-policies"
_RUN = "/run/trainyard"
_SOCKET = f"{_RUN}/opa.sock"
_BUNDLE, _AUTHORIZATION = "rules.tar.gz", "authorization.tar.gz"
_COMMAND_LINE = {"folders": (), "preview": True, "pod_controllers": ()}
"""Settings that the controller, which reviews TrainJobs and what it renders, does not read: a change is no roll-out."""
_LIMIT = 1024 * 1024
"""Maximum size of a ConfigMap, in bytes."""


@dataclass(frozen=True)
class PolicyServerParts:
    """Parts that add a policy server to the controller's Deployment.

    Parameters
    ----------
    rules
        The ConfigMap with the rules.
    container
        The server.
    volumes
        Volumes that the controller mounts: the rules, to verify their revision, and the folder of the socket.
    configuration
        The controller's configuration of the policy server.
    """

    rules: dict[str, Any]
    container: Container
    volumes: tuple[ConfigVolume | ScratchVolume, ...]
    configuration: PolicyServer


def policy_server(settings: StackSettings, target: Target) -> PolicyServerParts:
    """Return the policy server of a stack.

    Raises
    ------
    TrainyardError
        A rule is invalid, or the bundle does not fit into a ConfigMap.
    """
    trainer = TrainerSettings.of(settings)
    shipped, *own = rule_catalogs(settings)
    rules = load_rules(shipped, *own)
    policies = policy_settings(settings, rules)
    bundle = build_bundle(*own, rules=rules)
    files = {
        _BUNDLE: bundle.archive(),
        _AUTHORIZATION: bundle_files({"authorization.rego": SOCKET_AUTHORIZATION.encode()}, ["system/authz"]).archive(),
    }
    name = f"trainyard-policies-{hashlib.sha256(b''.join(files.values())).hexdigest()[:12]}"
    volumes = (ConfigVolume(name, _RULES), ScratchVolume("policy-server", _RUN))
    return PolicyServerParts(
        _config_map(name, trainer.namespace, files),
        _container(target, volumes, trainer.shutdown_delay_seconds + WEBHOOK_TIMEOUT_SECONDS),
        volumes,
        PolicyServer(
            socket=Path(_SOCKET),
            bundle=Path(_RULES) / _BUNDLE,
            revision=bundle.revision,
            settings=policies.model_copy(update=_COMMAND_LINE),
            exempt_namespaces=settings.exempt_namespaces,
            told=tuple(rule.id for rule in rules if rule.cel and rule_state(rule, policies) is not PolicyState.OFF),
        ),
    )


def _config_map(name: str, namespace: str, files: dict[str, bytes]) -> dict[str, Any]:
    size = sum(map(len, files.values()))
    if size > _LIMIT:
        raise TrainyardError(
            f"The policy bundle has {size} bytes, more than a ConfigMap can hold ({_LIMIT})",
            fix="move data out of the rules of trainyard:policies.folders",
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "immutable": True,
        "binaryData": {key: base64.b64encode(content).decode() for key, content in files.items()},
    }


def _container(
    target: Target, volumes: tuple[ConfigVolume | ScratchVolume, ...], shutdown_wait_seconds: int
) -> Container:
    version = next(program.version for program in PROGRAMS if program.name == "opa")
    return Container(
        program="opa",
        log_flag=OPA_LOG,
        image=target.images.reference("opa", version),
        command=("/opa",),
        args=(
            "run",
            "--server",
            f"--addr=unix://{_SOCKET}",
            "--unix-socket-perm=600",
            "--diagnostic-addr=:8282",
            "--authorization=basic",
            "--skip-version-check",
            "--log-level=error",
            # The controller queries the server until its own last request is answered.
            f"--shutdown-wait-period={shutdown_wait_seconds}",
            "--bundle",
            f"{_RULES}/{_AUTHORIZATION}",
            f"{_RULES}/{_BUNDLE}",
        ),
        ports={"opa-health": 8282},
        readiness={"httpGet": {"path": "/health?bundles", "port": "opa-health"}},
        liveness={"httpGet": {"path": "/health", "port": "opa-health"}},
        memory=("64Mi", "512Mi"),
        # Tenants see no uid of a pod of this namespace, so they cannot read the metrics at the address for probes.
        env_fields={METRICS_TOKEN: "metadata.uid"},
        # This mount hides the token of the pod's ServiceAccount from the container.
        volumes=(*volumes, ScratchVolume("no-credentials", "/var/run/secrets/kubernetes.io/serviceaccount")),
    )
