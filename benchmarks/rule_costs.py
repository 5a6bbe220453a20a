"""Cost of each admission rule on the policy server: number of requests, and of expressions that they evaluate.

    python -m benchmarks.rule_costs

Counts are the same on every machine. Prints a table for a thousand of the manifests of `benchmarks.policy` and writes
`benchmarks/results/rule-costs.json`.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.policy import STACK, asked, write_corpus
from benchmarks.recording import save
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.check.sources import read_sources
from trainyard.policy.engines.opa.bundle import Bundle, build_bundle
from trainyard.settings.stack_loader import load_stack

MANIFESTS = 200
"""The corpus repeats itself: these are counted for a thousand."""
SCALE = 1000 // MANIFESTS
CONCERNED = "tenants and labelled"
"""Whom all requests of the corpus concern, in the words of the bundle's index."""


@dataclass(frozen=True)
class Question:
    """One request.

    Parameters
    ----------
    document
        As the policy server gets it where no rule is left out.
    concerns
        The rules that evaluate such requests.
    mute
        The rules of which `trainyard check` sees that they find nothing.
    """

    document: Mapping[str, Any]
    concerns: frozenset[str]
    mute: frozenset[str]


def main() -> None:
    """Count and print."""
    bundle = build_bundle()
    with tempfile.TemporaryDirectory() as folder:
        results = costs(bundle, questions(bundle, Path(folder)), Path(folder))
    save("rule-costs", results)
    print(table(results))


def questions(bundle: Bundle, folder: Path) -> tuple[dict[str, Any], list[Question]]:
    """Return what all requests about the corpus share, and the requests."""
    index = orjson.loads(bundle.files["data.json"])["trainyard"]["index"]
    write_corpus(folder / "manifests", MANIFESTS)
    sources, settings = read_sources([str(folder / "manifests")], stdin=str), load_stack(STACK)
    whole, fewer = asked(sources, settings, prefilter=False), asked(sources, settings)
    found: list[Question] = []
    params: list[Any] = []
    for document, muted in zip(whole, fewer, strict=True):
        for request, same in zip(document["requests"], muted["requests"], strict=True):
            body, operation = request["request"]["object"], request["request"]["operation"]
            of_kind = index[body["apiVersion"].rpartition("/")[0]][body["kind"]][""][operation]
            placed = {**request, "params": len(params) + request["params"]}
            found.append(Question(placed, frozenset(of_kind[CONCERNED]["all"]), frozenset(same["prefiltered"])))
        params += document["params"]
    return {**whole[0], "params": params}, found


def costs(bundle: Bundle, asking: tuple[dict[str, Any], Sequence[Question]], folder: Path) -> dict[str, Any]:
    """Return the counts, by rule and all together."""
    shared, requests = asking
    bundle.write(folder / "bundle.tar.gz")
    rules = frozenset(rule for request in requests for rule in request.concerns)

    def expressions(mutes: Iterable[Iterable[str]]) -> int:
        muted = [
            {**each.document, "prefiltered": dict.fromkeys(mute, True)}
            for each, mute in zip(requests, mutes, strict=True)
        ]
        (folder / "input.json").write_bytes(orjson.dumps({**shared, "requests": muted}))
        command = [str(program_path("opa")), "eval", "--profile", "--profile-limit=1000000", "--format=json"]
        command += ["--bundle=bundle.tar.gz", "--input=input.json", "data.trainyard.decisions"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
        return sum(int(line["num_eval"]) for line in orjson.loads(done.stdout)["profile"]) * SCALE

    without = expressions(rules for _ in requests)
    each: dict[str, dict[str, int]] = {}
    for rule in sorted(rules):
        others = rules - {rule}
        each[rule] = {
            "concerned": sum(rule in request.concerns for request in requests) * SCALE,
            "concerned_expressions": expressions(others for _ in requests) - without,
            "asked": sum(rule in request.concerns - request.mute for request in requests) * SCALE,
            "asked_expressions": expressions(others | request.mute for request in requests) - without,
        }
    return {
        "requests": len(requests) * SCALE,
        "without_rules": without,
        "concerned_expressions": expressions(() for _ in requests),
        "asked_expressions": expressions(request.mute for request in requests),
        "each": each,
    }


def table(results: Mapping[str, Any]) -> str:
    """Return the counts as Markdown, the dearest rule first."""
    lines = [
        "| rule | matching requests | expressions | of these evaluated by `check` | expressions |",
        "| --- | --- | --- | --- | --- |",
    ]
    columns = ("concerned", "concerned_expressions", "asked", "asked_expressions")
    dearest = sorted(results["each"].items(), key=lambda entry: -entry[1]["concerned_expressions"])
    lines += [f"| {rule} | {' | '.join(f'{counts[column]:,}' for column in columns)} |" for rule, counts in dearest]
    whole = (results["requests"], results["concerned_expressions"], results["requests"], results["asked_expressions"])
    lines.append(f"| all rules | {' | '.join(f'{count:,}' for count in whole)} |")
    lines.append(f"| no rules | {results['requests']:,} | {results['without_rules']:,} | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
