"""Settings of the platform's own pods: what a program inherits, and what is rejected with path and fix."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.errors import TrainyardError
from trainyard.settings.pods import PlatformPodSettings
from trainyard.settings.stack_loader import parse_stack


def pods(**settings: Any) -> PlatformPodSettings:
    return parse_stack({"cluster": {"provider": "embedded"}, "pods": settings}, source="test").pods


def finding(**settings: Any) -> tuple[str, str, str]:
    with pytest.raises(TrainyardError) as caught:
        pods(**settings)
    (found,) = caught.value.findings
    return found.path, found.message, found.fix


def test_a_program_inherits_what_it_does_not_set() -> None:
    settings = pods(
        priorityClass="platform",
        nodeSelector={"pool": "system"},
        tolerations=[{"key": "system", "operator": "Exists"}],
        logLevel="error",
        programs={"opa": {"logLevel": "debug"}, "kueue": {"nodeSelector": {"zone": "a"}, "tolerations": []}},
    )
    assert settings.of("jobset").node_selector == {"pool": "system"}
    assert (settings.of("opa").log_level, settings.of("opa").priority_class) == ("debug", "platform")
    assert settings.of("kueue").node_selector == {"zone": "a"}
    assert settings.of("kueue").tolerations == ()


def test_resources_of_a_program_are_merged_by_name() -> None:
    settings = pods(
        resources={"limits": {"cpu": "2"}, "requests": {"cpu": "250m"}},
        programs={"opa": {"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}},
    )
    of_opa = settings.of("opa").resources
    assert (of_opa.requests, of_opa.limits) == ({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})
    assert settings.of("jobset").resources.limits == {"cpu": "2"}


@pytest.mark.parametrize(
    ("settings", "path", "message", "fix"),
    [
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}, "tolerations[0]", "'x'", "remove value"),
        ({"tolerations": [{"value": "x"}]}, "tolerations[0]", "requires a key", "set key"),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 3}]},
            "tolerations[0]",
            "requires effect NoExecute",
            "set effect",
        ),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "tolerations[0].effect", "(value: 'Never')", "NoSchedule"),
        ({"toleration": []}, "toleration", "unknown setting", "did you mean tolerations?"),
        (
            {"programs": {"opa": {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "512Mi"}}}}},
            "programs.opa.resources",
            "the limit 512Mi of memory is below the request 1Gi",
            "raise limits.memory",
        ),
        (
            {"resources": {"requests": {"memory": "much"}}},
            "resources.requests.memory",
            "must be a Kubernetes quantity such as 8, 500m or 512Gi (value: 'much')",
            "docs/reference/settings.md",
        ),
        ({"resources": {"requests": {"memroy": "1Gi"}}}, "resources.requests.memroy", "must be cpu, memory", "use cpu"),
        ({"logLevel": "verbose"}, "logLevel", "must be error, info or debug", "use error, info or debug"),
        ({"programs": {"opa": {"replicas": 9}}}, "programs.opa.replicas", "less than or equal to 5", ""),
        (
            {"topologySpread": [{"topologyKey": "zone", "minDomains": 2}]},
            "topologySpread[0]",
            "minDomains requires whenUnsatisfiable DoNotSchedule",
            "set whenUnsatisfiable",
        ),
        (
            {"topologySpread": [{"topologyKey": "zone"}, {"topologyKey": "zone", "maxSkew": 2}]},
            "topologySpread",
            "two entries have topologyKey zone",
            "keep one",
        ),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringScheduling": {}}}},
            "affinity.nodeAffinity.requiredDuringScheduling",
            "unknown setting",
            "did you mean requiredDuringSchedulingIgnoredDuringExecution?",
        ),
    ],
)
def test_an_invalid_value_is_one_message(settings: dict[str, Any], path: str, message: str, fix: str) -> None:
    found = finding(**settings)
    assert found[0] == f"trainyard:pods.{path}"
    assert message in found[1]
    assert fix in found[2]


def test_the_operator_of_a_requirement_decides_whether_it_has_values() -> None:
    def of(**expression: Any) -> str:
        term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", **expression}]}]}
        return finding(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}})[1]

    assert of(operator="In") == "operator In requires values"
    assert of(operator="Exists", values=["a"]) == "operator Exists cannot have values"
    assert of(operator="Gt", values=["many"]) == "operator Gt requires one whole number"


def test_the_content_of_a_pull_secret_is_rejected_and_not_repeated() -> None:
    content = '{"auths": {"registry.example.com": {"auth": "c2VjcmV0"}}}'
    path, message, fix = finding(imagePullSecrets=["registry", content])
    assert path == "trainyard:pods.imagePullSecrets[1]"
    assert message == "must be the name of a Secret, not its content"
    assert "c2VjcmV0" not in message + fix
    assert finding(imagePullSecrets=[{".dockerconfigjson": content}])[1] == message


def test_a_priority_class_that_is_created_later_is_rejected() -> None:
    with pytest.raises(TrainyardError) as caught:
        parse_stack(
            {
                "cluster": {"provider": "embedded"},
                "priorityClasses": {"platform": {"value": 5}},
                "pods": {"priorityClass": "platform", "programs": {"opa": {"priorityClass": "other"}}},
            },
            source="test",
        )
    (found,) = caught.value.findings
    assert found.path == "trainyard:pods.priorityClass"
    assert "created after the programs" in found.message
