"""The Kueue section refers to what exists, and one of Kueue and Volcano owns the quota of a tenant."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.components.recording import stack_config
from trainyard.errors import TrainyardError
from trainyard.settings.sections.kueue import KueueSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

SECTION: dict[str, Any] = {
    "install": True,
    "topologies": {"fabric": {"levels": ["topology.trainyard.dev/rack", "kubernetes.io/hostname"]}},
    "flavors": {"h100": {"nodeLabels": {"node.kubernetes.io/instance-type": "simulated-8gpu"}, "topology": "fabric"}},
    "clusterQueues": {
        "vision": {
            "cohort": "research",
            "resourceGroups": [
                {
                    "flavors": [
                        {
                            "flavor": "h100",
                            "quotas": {"cpu": 384, "nvidia.com/gpu": {"nominalQuota": 32, "lendingLimit": "8"}},
                        }
                    ]
                }
            ],
        }
    },
    "localQueues": [{"tenant": "vision", "name": "training", "clusterQueue": "vision"}],
}


def kueue_config(**changes: Any) -> dict[str, Any]:
    """Return the settings of a stack whose tenant vision queues with Kueue, its section changed."""
    config = stack_config(kueue={**copy.deepcopy(SECTION), **changes})
    config["queues"]["vision"] = {"parent": "research", "reclaimable": False}
    return config


def parsed(config: dict[str, Any]) -> StackSettings:
    return parse_stack(config, source="test")


def findings(config: dict[str, Any]) -> dict[str, str]:
    """Return the messages of the findings by path, without the prefix."""
    with pytest.raises(TrainyardError) as raised:
        parsed(config)
    return {each.path.removeprefix("trainyard:"): each.message for each in raised.value.findings}


def changed(**changes: Any) -> dict[str, str]:
    return findings(kueue_config(**changes))


def one_queue(quotas: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"vision": {"resourceGroups": [{"flavors": [{"flavor": "h100", "quotas": quotas}]}], **changes}}


def dispatched(*clusters: str) -> dict[str, Any]:
    return {"multiKueueClusters": [*clusters]}


def test_a_stack_without_kueue_has_none_of_its_namespaces() -> None:
    settings = parsed(stack_config())
    assert KueueSettings.of(settings).install is False
    assert "kueue-system" not in settings.platform_namespaces
    assert "kueue-system" in parsed(kueue_config()).exempt_namespaces


def test_a_quantity_alone_is_the_nominal_quota() -> None:
    queue = KueueSettings.of(parsed(kueue_config())).cluster_queues["vision"]
    quotas = queue.resource_groups[0].flavors[0].quotas
    assert quotas["cpu"].nominal_quota == "384"
    assert quotas["nvidia.com/gpu"].lending_limit == "8"


def test_an_amount_that_is_no_quantity_is_refused_where_it_is() -> None:
    found = changed(clusterQueues=one_queue({"cpu": "many"}))
    assert list(found) == ["kueue.clusterQueues.vision.resourceGroups[0].flavors[0].quotas.cpu.nominalQuota"]
    empty = changed(clusterQueues={"vision": {"resourceGroups": [{"flavors": []}]}})
    assert list(empty) == ["kueue.clusterQueues.vision.resourceGroups[0].flavors"]


def test_queues_without_kueue_are_refused() -> None:
    found = changed(install=False, multiKueue={"clusters": {"east": {}}})
    keys = ("topologies", "flavors", "clusterQueues", "localQueues", "multiKueue")
    assert set(found) == {f"kueue.{key}" for key in keys}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("kueue.flavors.h100.topology", {"topologies": {}}),
        ("kueue.flavors.h100.nodeLabels", {"flavors": {"h100": {"topology": "fabric"}}}),
        ("kueue.topologies.fabric.levels", {"topologies": {"fabric": {"levels": ["a", "a"]}}}),
        ("kueue.topologies.fabric.levels", {"topologies": {"fabric": {"levels": ["kubernetes.io/hostname", "a"]}}}),
        ("kueue.clusterQueues.vision.resourceGroups[0].flavors[0].flavor", {"flavors": {}, "topologies": {}}),
        (
            "kueue.flavors.h100.tolerations[0].value",
            {
                "flavors": {"h100": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "value": "a"}]}},
                "topologies": {},
            },
        ),
        ("kueue.waitForPodsReady.timeoutSeconds", {"waitForPodsReady": {"timeoutSeconds": 2**31}}),
        ("kueue.waitForPodsReady.backoffMaxSeconds", {"waitForPodsReady": {"backoffMaxSeconds": 2**31}}),
        (
            "kueue.localQueues[0].name",
            {"localQueues": [{"tenant": "vision", "name": "q" * 64, "clusterQueue": "vision"}]},
        ),
        ("kueue.waitForPodsReady", {"install": "existing", "waitForPodsReady": True}),
        (
            "kueue.multiKueue.origin",
            {"install": "existing", "multiKueue": {"clusters": {"east": {}}, "origin": "manager"}},
        ),
        (
            "kueue.multiKueue.workerLostTimeoutSeconds",
            {"install": "existing", "multiKueue": {"clusters": {"east": {}}, "workerLostTimeoutSeconds": 900}},
        ),
        ("kueue.localQueues[0].tenant", {"localQueues": [{"tenant": "x", "name": "q", "clusterQueue": "vision"}]}),
        ("kueue.localQueues[0].clusterQueue", {"clusterQueues": {}}),
        (
            "kueue.localQueues[1].name",
            {"localQueues": [{"tenant": "vision", "name": "q", "clusterQueue": "vision"}] * 2},
        ),
        (
            "kueue.clusterQueues.vision.resourceGroups[0].flavors[0].quotas[cpu].borrowingLimit",
            {"clusterQueues": one_queue({"cpu": {"nominalQuota": 1, "borrowingLimit": 1}})},
        ),
        (
            "kueue.clusterQueues.vision.resourceGroups[0].flavors[0].quotas[cpu].lendingLimit",
            {"clusterQueues": one_queue({"cpu": {"nominalQuota": "1", "lendingLimit": "1500m"}}, cohort="c")},
        ),
        (
            "kueue.clusterQueues.vision.multiKueueClusters[0]",
            {"clusterQueues": one_queue({"cpu": 1}, **dispatched("x"))},
        ),
        (
            "kueue.clusterQueues.vision.multiKueueClusters[0]",
            {"clusterQueues": one_queue({"cpu": 1}, **dispatched("west")), "multiKueue": {"clusters": {"east": {}}}},
        ),
        (
            "kueue.clusterQueues.vision.multiKueueClusters[1]",
            {"clusterQueues": one_queue({"cpu": 1}, **dispatched("a", "a")), "multiKueue": {"clusters": {"a": {}}}},
        ),
        ("kueue.multiKueue.clusters", {"multiKueue": {"clusters": {}}}),
        ("kueue.multiKueue.origin", {"multiKueue": {"clusters": {"a": {}}, "origin": ""}}),
        (
            "kueue.clusterQueues.vision.preemption.borrowWithinCohort.policy",
            {
                "clusterQueues": one_queue(
                    {"cpu": 1}, preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}, cohort="c"
                )
            },
        ),
    ],
)
def test_a_reference_to_nothing_and_a_contradiction_are_refused(path: str, changes: dict[str, Any]) -> None:
    assert path in changed(**changes)


def test_a_group_has_the_same_resources_in_each_flavor_and_each_only_once() -> None:
    group = {"flavors": [{"flavor": "h100", "quotas": {"cpu": 1}}, {"flavor": "a100", "quotas": {"memory": "1Gi"}}]}
    again = {"flavors": [{"flavor": "h100", "quotas": {"cpu": 1}}]}
    found = changed(
        flavors={"h100": {}, "a100": {}}, topologies={}, clusterQueues={"vision": {"resourceGroups": [group, again]}}
    )
    assert list(found.values()) == [
        "flavor 'a100' has quotas of other resources than the first flavor",
        "resource cpu is in another group of the queue",
        "flavor 'h100' occurs twice",
    ]


def test_a_queue_whose_jobs_run_in_other_clusters_names_its_configuration_too() -> None:
    queue = one_queue({"cpu": 1}, **dispatched("east"))["vision"]
    found = changed(
        clusterQueues={"team.vision": queue},
        localQueues=[{"tenant": "vision", "name": "training", "clusterQueue": "team.vision"}],
        multiKueue={"clusters": {"east": {}}},
    )
    assert list(found) == ["kueue.clusterQueues.team.vision"]
    assert "must be a DNS label" in found["kueue.clusterQueues.team.vision"]


def test_a_retired_tenant_has_no_local_queue() -> None:
    config = kueue_config()
    config["tenants"]["vision"]["state"] = "retired"
    found = findings(config)
    assert found == {
        "kueue.localQueues[0].tenant": "tenant 'vision' is retired: the LocalQueue is deleted with its namespace"
    }


def test_the_quota_of_a_tenant_has_one_owner() -> None:
    config = kueue_config()
    config["queues"]["vision"]["capability"] = {"nvidia.com/gpu": "32"}
    found = findings(config)
    assert list(found) == ["queues.vision.capability"]
    assert "Kueue owns its quota" in found["queues.vision.capability"]


def test_waiting_for_pods_may_be_just_switched_on() -> None:
    switched_on = KueueSettings.of(parsed(kueue_config(waitForPodsReady=True))).wait_for_pods_ready
    assert switched_on is not None
    assert switched_on.timeout_seconds == 300
    assert KueueSettings.of(parsed(kueue_config(waitForPodsReady=False))).wait_for_pods_ready is None


def test_an_untested_version_is_refused() -> None:
    assert "not a tested version of kueue" in changed(version="0.17.0")["kueue.version"]
