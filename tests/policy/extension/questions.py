"""Print what the library knows of the rules ABC-001 and ABC-002, as JSON; the test runs this where they exist."""

from __future__ import annotations

import json

from tests.policy.decisions import STACK
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import policy_settings
from trainyard.settings.stack_loader import load_stack


def main() -> None:
    rules = load_rules()
    bundle = build_bundle()
    data = json.loads(bundle.files["data.json"])["trainyard"]
    settings = load_stack(STACK)
    objects = admission_objects(rules, policy_settings(settings, rules), settings.exempt_namespaces)
    answers = {
        "rules": [rule.id for rule in rules],
        "rego": [name for name in bundle.files if "ABC-" in name],
        "catalog": data["catalog"].get("ABC-001"),
        "index": "ABC-001" in json.dumps(data["index"]["trainer.kubeflow.org"]["TrainJob"]),
        "policies": [[each["kind"], each["metadata"]["name"]] for each in objects if "abc-00" in json.dumps(each)],
    }
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
