"""Where mutated objects live: namespaces and their tenants, what the platform offers, who asks, how a stack is set."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainyard.policy.rules.admission_rule import AdmissionRule, EnforcementPoint
from trainyard.policy.testing.cases import Case, CaseWorld, spec_of
from trainyard.settings.platform import ExemptionSettings, PolicySettings, PolicyState

PLATFORM_NAMESPACE: Final = "kube-system"
TODAY: Final = datetime.date(2020, 1, 1)
"""Day of the last `up`, long ago: exemptions that have expired since end by the clock of the API server."""
NOW: Final = datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Home:
    """A namespace: whether it is labelled as a tenant's, one of the platform's, and the spec of its TenantPolicy."""

    name: str
    labelled: bool = False
    exempt: bool = False
    policy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class User:
    """Who asks; an administrator may change admission policies. ``{home}`` stands for the namespace of the object."""

    name: str
    groups: Sequence[str] = ()
    administrator: bool = False


USERS: Final[Mapping[str, User]] = {
    "author": User("unknown user"),
    "account": User(
        "system:serviceaccount:{home}:default", ("system:serviceaccounts", "system:serviceaccounts:{home}")
    ),
    "controller": User(
        "system:serviceaccount:kube-system:kubeflow-trainer-controller-manager",
        ("system:serviceaccounts", "system:serviceaccounts:kube-system"),
    ),
    "alone": User("system:serviceaccount:kube-system:trainer"),
    "lookalike": User("ann", ("system:serviceaccounts:kube-system2", "system:serviceaccounts", "tenants")),
    "manager": User("system:kube-controller-manager"),
    "kueue": User(
        "system:serviceaccount:kueue-system:kueue-controller-manager", ("system:serviceaccounts:kueue-system",)
    ),
    "root": User("root", ("system:masters",)),
    "editor": User("pat", ("policy-editors",), administrator=True),
}


class Worlds:
    """Every namespace and Platform that the cases live in, and some more.

    Parameters
    ----------
    cases
        The cases of the rules.
    world
        What surrounds a case that says nothing else.
    """

    def __init__(self, cases: Iterable[Case], world: CaseWorld) -> None:
        tenant = world.tenant_policy
        self._world = world
        self.homes: dict[str, Home] = {}
        self.platforms: dict[str, Mapping[str, Any] | None] = {}
        self._by_content: dict[str, str] = {}
        fabric = {"tiers": [{"name": "rack", "tier": 1}, {"name": "spine", "tier": 3}]}
        generous = {
            **tenant,
            "queues": ["vision", "language", "team"],
            "runtimes": ["*"],
            "maxAcceleratorsPerJob": 1000,
            "priorityClasses": ["normal", "high"],
            "serviceAccounts": ["default", "trainer", "builder"],
        }
        for home in (
            Home("tenant", labelled=True, policy=tenant),
            Home("elsewhere"),
            Home(PLATFORM_NAMESPACE, exempt=True),
            Home("generous", labelled=True, policy=generous),
            Home("empty", labelled=True, policy={}),
            Home("unlabelled", policy=tenant),
            Home("exempted", labelled=True, exempt=True, policy=tenant),
            Home("bare", labelled=True),
        ):
            self._home(home)
        for spec in ({**world.platform}, None, {}, {**world.platform, **fabric},
                     {**world.platform, **fabric, "schedulerFeatures": ["network-topology-aware"]}):  # fmt: skip
            self._platform(spec)
        self.of_case = {id(case): self._placed(case) for case in cases}

    def _placed(self, case: Case) -> tuple[str, str]:
        content = case.content
        platform = self._platform(spec_of(self._world.platform, content.platform))
        if content.namespace == "platform":
            return PLATFORM_NAMESPACE, platform
        if content.namespace == "foreign":
            return "elsewhere", platform
        policy = spec_of(self._world.tenant_policy, content.tenant_policy)
        return self._home(Home(f"tenant-{len(self.homes)}", labelled=True, policy=policy)), platform

    def _home(self, home: Home) -> str:
        key = json.dumps([home.labelled, home.exempt, home.policy, home.name == PLATFORM_NAMESPACE], sort_keys=True)
        if key not in self._by_content:
            self._by_content[key] = home.name
            self.homes[home.name] = home
        return self._by_content[key]

    def _platform(self, spec: Mapping[str, Any] | None) -> str:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._by_content:
            name = f"variant-{len(self.platforms)}" if spec is not None else "missing"
            self._by_content[key] = name
            self.platforms[name] = spec
        return self._by_content[key]


def own_settings(rules: Iterable[AdmissionRule], namespace: str, names: Sequence[str]) -> PolicySettings:
    """Return the settings of a stack that sets all it can: states, parameters, exemptions that hold and that do not.

    Parameters
    ----------
    rules
        The catalog.
    namespace
        A tenant's namespace.
    names
        Names of objects in it.
    """
    free = [rule for rule in rules if rule.gate is not EnforcementPoint.CRD]
    turn = (PolicyState.DENY, PolicyState.WARN, PolicyState.AUDIT, PolicyState.DENY)
    states = {rule.id: turn[number % len(turn)] for number, rule in enumerate(free)}
    states["LBL-001"] = PolicyState.OFF
    ends, ended = datetime.date(2199, 1, 1), datetime.date(2020, 2, 1)

    def exemption(rule: str, expires: datetime.date = ends, **scope: str) -> ExemptionSettings:
        who = {"owner": "ann@example.com", "reason": "shows what an exemption does"}
        return ExemptionSettings(rule=rule, namespace=namespace, expires=expires, **who, **scope)

    return PolicySettings(
        states=states,
        parameters={
            "IMG-001": {
                "registries": ["registry.example", "docker.io/pytorch", "localhost:5000"],
                "floatingTags": ["2.8.0"],
            },
            "RST-001": {"deadlineRequired": True, "maxDeadlineSeconds": 60, "maxRestarts": 2, "maxBackoffLimit": 3},
            "ESC-002": {"capabilities": [], "sysctls": ["kernel.msgmax"]},
            "ESC-003": {"drivers": ["csi.example.com"], "volumes": ["emptyDir", "nfs", "ephemeral", "csi"]},
            "VOL-001": {
                "storageClasses": ["fast", ""],
                "volumeAttributesClasses": ["fast"],
                "volumes": ["{namespace}*", "data-*"],
                "users": ["ann"],
            },
            "ACC-003": {"deviceVariables": ["A", "NVIDIA_VISIBLE_DEVICES"], "deviceAnnotations": ["note"]},
            "ACC-004": {"deviceVariables": ["token"]},
            "ACC-005": {"maxDevices": 2, "deviceClasses": ["mig.nvidia.com"]},
            "ESC-005": {"classes": ["gvisor"], "deviceClasses": ["nvidia=nvidia.com/", "nvidia=cpu"]},
            "QUE-004": {"shared": ["red"]},
            "TEN-020": {"annotations": ["note"], "labels": ["note"], "prefixes": ["cdi."], "users": ["ann"]},
            "TEN-021": {"defaults": ["high"]},
            "BND-001": {"pods": 6, "completions": 6, "processes": 4},
            "BND-002": {"templates": 1, "containers": 1, "items": 2},
            "TEN-011": {"classes": ["urgent", "ordinary", "high"], "schedulers": ["volcano", "volcano-2"]},
            "TEN-012": {"maxGracePeriodSeconds": 60},
            "OBJ-003": {"groups": ["on-call"], "users": ["root@example.com"]},
            "ESC-004": {"volumes": ["emptyDir"], "audiences": []},
            "LBL-002": {"frameworks": ["torch", "pytorch", ""]},
            "TEN-003": {"defaults": ["high"]},
            "TEN-005": {"nodeLabels": [], "avoidedLabels": ["topology.kubernetes.io/zone"], "taints": [""]},
            "TEN-006": {"managers": ["team.example/"], "users": ["ann"]},
            "GNG-001": {"volcano": ["volcano", "volcano-gpu"], "kai": []},
            "ACC-001": {"schedulers": ["default-scheduler"]},
            "QUE-003": {"users": ["unknown user"]},
            "ENV-001": {"reserved": ["torch=PET_*", "torch=*", "mpi=OMPI"]},
            "OBJ-001": {"users": ["unknown user"]},
        },
        exemptions=(
            exemption("ESC-001"),
            exemption("ESC-002", ended),
            exemption("QUE-002", kind="TrainJob"),
            exemption("TEN-004", kind="Job"),
            exemption("TEN-004", kind="Pod"),
            exemption("IMG-001", ended, kind="JobSet"),
            *(exemption("QUE-001", name=name) for name in names[:20]),
            *(exemption("TEN-001", kind="TrainJob", name=name) for name in names[:40]),
        ),
    )
