"""Print what the library knows of its plug-ins, as JSON; the test runs this where there are more of them."""

from __future__ import annotations

import json
from typing import Any

from tests.api.jobset_crd import jobset_crd
from tools.reference.api import reference
from trainyard.api.crds import build
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_sets import summary
from trainyard.controller.keys import generate
from trainyard.controller.permissions import cluster_rules
from trainyard.data import data_folder
from trainyard.jobs.convert.conversion import AUTO
from trainyard.jobs.convert.converted_documents import convert_documents
from trainyard.jobs.runtimes.runtime_lint import lint_runtime
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.policy.engines.opa.bundle import _sources, build_bundle
from trainyard.policy.prefilter import searched
from trainyard.policy.rule_reference import reference as rules_page
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases

KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")


def schemas() -> dict[str, Any]:
    definitions = {each["spec"]["names"]["kind"]: each for each in build(jobset_crd())}
    versions = {kind: definitions[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind in KINDS}
    return {kind: schema["properties"]["spec"]["properties"] for kind, schema in versions.items()}


def reserved() -> dict[str, Any]:
    rules = {rule.id: rule.parameter_values({}) for rule in load_rules()}
    return {name: rules[name]["reserved"] for name in ("ENV-001", "ENV-002")} | {
        "LBL-002": rules["LBL-002"]["frameworks"]
    }


def lint() -> list[str]:
    resources = {"limits": {"nvidia.com/gpu": 2}}
    pod = {"containers": [{"name": "node", "image": "example.com/train:1", "resources": resources}]}
    template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"spec": pod}},
    }
    spec = {
        "mlPolicy": {"herd": {"numProcPerNode": 4}},
        "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}},
    }
    return [finding.path for finding in lint_runtime({"spec": spec})]


def protected() -> list[str]:
    (rule,) = (rule for rule in load_rules() if rule.id == "OBJ-001")
    return [f"{match.group}/{match.resource}" for match in rule.matches]


def trusted_names() -> dict[str, Any]:
    (rule,) = (rule for rule in load_rules() if rule.id == "OBJ-001")
    data = json.loads(build_bundle().files["data.json"])["trainyard"]
    cel = [text for text in rule.cel.texts if '"configmaps": ' in text] if rule.cel else []
    return {
        "texts": [text.decode() for text in searched(rule.texts, {}, {})],
        "cel": cel,
        "rego": data["children"],
    }


def scheduler_rule() -> dict[str, Any]:
    (rule,) = (rule for rule in load_rules() if rule.id == "GNG-001")
    return {"parameters": rule.parameter_values({}), "cel": rule.cel.texts if rule.cel else []}


def member() -> bool:
    metadata = {"name": "job", "namespace": "team", "uid": "1", "resourceVersion": "1"}
    pod = {"metadata": {"labels": {"dense.example.com/group": "job"}}, "spec": {}}
    spec = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": pod}}}]}
    return bool(summary({"kind": "JobSet", "metadata": metadata, "spec": spec})["spec"]["gang"])


def converted() -> list[Any]:
    pod = {"spec": {"containers": [{"name": "sheep", "image": "example.com/train:1"}]}}
    metadata = {"name": "flock", "namespace": "team"}
    flock = {"apiVersion": "legacy.example.com/v1", "kind": "Flock", "metadata": metadata}
    node = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "example.com/herd:1"}]}}},
        },
    }
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "herd", "labels": {"trainer.kubeflow.org/framework": "herd"}},
        "spec": {"mlPolicy": {"numNodes": 1, "herd": {}}, "template": {"spec": {"replicatedJobs": [node]}}},
    }
    text = json.dumps({**flock, "spec": {"sheep": 3, "template": pod}})
    (conversion,) = convert_documents({"flock.yaml": text}, {"herd": runtime}, runtime=AUTO)
    return list(conversion.objects)


def main() -> None:
    view = ClusterCache(Client(Connection("http://127.0.0.1:1")))
    rules = load_rules()
    answers = {
        "schemas": schemas(),
        "sources": _sources(),
        "permissions": cluster_rules(),
        "children": [[each.resource.api_version, each.resource.kind] for each in view.children],
        "member": member(),
        "scheduler-rule": scheduler_rule(),
        "reserved": reserved(),
        "lint": lint(),
        "protected": protected(),
        "trusted-names": trusted_names(),
        "converted": converted(),
        "keys": list(generate("brand")),
        "rules-page": rules_page(rules, load_cases(data_folder("policies"), rules)),
        "api-page": reference(),
    }
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
