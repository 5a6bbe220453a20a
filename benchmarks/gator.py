"""`trainyard check` beside Gatekeeper's `gator test`: the same manifests and the same Rego, in turns on one machine.

`trainyard check` also resolves TrainJobs, renders them and reviews the result, which `gator` does not. The
run ends where the two do not have the same findings in what both review. Writes `benchmarks/results/gator.json`.

    python -m benchmarks.gator [--manifests 1000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.admission.templates import CONSTRAINTS, gatekeeper_objects
from benchmarks.commands import spent
from benchmarks.policy import STACK, manifest, write_corpus
from benchmarks.recording import publish
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import namespace_labels, platform_object, tenant_policy
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import load_stack

CONTENDERS = ("trainyard", "gator")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--manifests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, one, rules = (Path(folder, name) for name in ("corpus", "one", "rules"))
        for each in (corpus, one, rules):
            each.mkdir()
        write_corpus(corpus, options.manifests)
        (one / "one.yaml").write_text(yaml.safe_dump(manifest(0)))
        settings = load_stack(STACK)
        (rules / "rules.yaml").write_text(yaml.safe_dump_all(known_to_gator(settings), sort_keys=False))
        best: dict[tuple[str, Path], dict[str, float]] = {}
        found: dict[str, set[tuple[str, str]]] = {}
        for _ in range(options.rounds):
            for contender in CONTENDERS:
                for manifests in (one, corpus):
                    taken, printed = spent(command(contender, manifests, rules), accepted=(0, 1))
                    known = best.get((contender, manifests), taken)
                    best[contender, manifests] = min(known, taken, key=lambda each: each["processor_seconds"])
                    found[contender] = findings(contender, printed)
    if found["trainyard"] != found["gator"]:
        raise SystemExit(f"They do not find the same: {sorted(found['trainyard'] ^ found['gator'])[:5]}")
    figures = {name: figures_of(best[name, one], best[name, corpus], options.manifests) for name in CONTENDERS}
    ratios = {key: round(value / figures["gator"][key], 2) for key, value in figures["trainyard"].items()}
    findings_in_both = len(found["gator"])
    publish(
        "gator",
        {
            "cores": os.cpu_count(),
            "manifests": options.manifests,
            "findings": findings_in_both,
            **figures,
            "trainyard_to_gator": ratios,
        },
    )


def known_to_gator(settings: StackSettings) -> list[dict[str, Any]]:
    """Return the rules as Gatekeeper has them, and the objects that they read."""
    templates, constraints = gatekeeper_objects(load_rules(), settings.policies, settings.exempt_namespaces)
    tenants = settings.tenants.items()
    namespaces = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": namespace_labels(name, tenant)},
        }
        for name, tenant in tenants
    ]
    limits = [tenant_policy(name, tenant) for name, tenant in tenants]
    return [*templates, *constraints, platform_object(settings), *limits, *namespaces]


def command(contender: str, manifests: Path, rules: Path) -> Sequence[str]:
    """Return how a contender is asked about a folder of manifests."""
    if contender == "gator":
        return (str(program_path("gator")), "test", "-f", str(manifests), "-f", str(rules), "-o", "json")
    own = ("check", "--format", "json", "--config-file", str(STACK), str(manifests))
    return (sys.executable, "-m", "trainyard", *own)


def findings(contender: str, printed: str) -> set[tuple[str, str]]:
    """Return rule and object of each finding about a manifest itself."""
    document = json.loads(printed)
    return set(_of_gator(document or ()) if contender == "gator" else _of_trainyard(document["results"]))


def _of_gator(results: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    for each in results:
        subject, constraint = each["violatingObject"], each["constraint"]
        assert constraint["apiVersion"] == CONSTRAINTS
        # What the rules read is among what gator reviews.
        if subject["kind"] not in ("Namespace", "Platform", "TenantPolicy"):
            metadata = subject["metadata"]
            yield (
                constraint["metadata"]["name"].upper(),
                f"{subject['kind']} {metadata['namespace']}/{metadata['name']}",
            )


def _of_trainyard(results: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    return ((each["rule"], each["object"]) for each in results if each["rule"] and "(from " not in each["object"])


def figures_of(one: Mapping[str, float], all_of_them: Mapping[str, float], count: int) -> dict[str, float]:
    """Return start-up and rate, from the times for one manifest and for many."""
    processor = all_of_them["processor_seconds"] - one["processor_seconds"]
    return {
        "start_up_seconds": round(one["seconds"], 2),
        "start_up_processor_seconds": round(one["processor_seconds"], 2),
        "manifests_per_processor_second": round(count / processor),
        "manifests_per_second": round(count / (all_of_them["seconds"] - one["seconds"])),
    }


if __name__ == "__main__":
    main()
