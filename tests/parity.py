"""Comparison of two checkouts: what their command lines answer about the same corpora.

``python -m tests.parity BEFORE AFTER`` shows which decisions differ between two versions: exit codes, rule ids,
severities, paths, objects and JSON keys, without the texts that people read. Both checkouts have their environment
(`make .venv/.ready`). The corpora are those of this checkout: every object of a rule's cases, the jobs of the
comparison with Kubeflow Trainer, the inputs of conversions and the runtimes; and the settings of BEFORE's stacks.
``parity_differences.yaml`` lists the intended differences, with a reason each. Exit code 1: there is another one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.compatibility.corpus import corpus
from trainyard.data import data_folder
from trainyard.policy import load_rules
from trainyard.policy.testing.case_files import load_cases

ROOT: Final = Path(__file__).resolve().parent.parent
TEXTS: Final = frozenset({"message", "fix", "title", "description", "seconds", "notes", "passed", "summary"})
"""Fields that people read and nothing matches on, and counts, because what they count is compared."""
SHOWN: Final = 20

Facts = Counter[str]


@dataclass(frozen=True)
class Intended:
    """Differences that a change of behavior explains."""

    answer: re.Pattern[str]
    fact: re.Pattern[str]
    reason: str

    def explains(self, answer: str, fact: str) -> bool:
        """Return whether this change is the reason of a fact that only one checkout states."""
        return bool(self.answer.fullmatch(answer) and self.fact.search(fact))


def intended_differences() -> list[Intended]:
    """Read the intended differences."""
    entries = yaml.safe_load((ROOT / "tests/parity_differences.yaml").read_text())
    return [Intended(re.compile(each["answer"]), re.compile(each["fact"]), each["reason"]) for each in entries]


def corpora(folder: Path, before: Path) -> dict[str, list[str]]:
    """Write the corpora into an empty folder; return the arguments of each command by its name."""
    for name in ("cases", "jobs"):
        (folder / name).mkdir()
    for case in load_cases(data_folder("policies"), load_rules()):
        body = case.content.object
        if body is not None and case.operation == "CREATE" and case.is_stored:
            (folder / "cases" / f"{case.rule.id}-{case.name}.yaml").write_text(json.dumps(body))
    for compared in corpus():
        text = "\n---\n".join(json.dumps(each) for each in compared.documents())
        (folder / "jobs" / f"{compared.name}.yaml").write_text(text)
    jobs = sorted(str(each) for each in (folder / "jobs").iterdir())
    inputs = sorted(str(each) for each in (ROOT / "tests/convert/inputs").glob("*.yaml"))
    commands = {
        "check of the cases": ["check", "--format", "json", str(folder / "cases")],
        "check of the jobs": ["check", "--format", "json", str(folder / "jobs")],
        "check of the runtimes": ["check", "--format", "json", str(ROOT / "runtimes")],
        "render": ["render", "-o", "json", *jobs],
        "convert": ["convert", "-o", "json", *inputs],
        "cases of the rules": ["policy", "test", "-o", "json"],
    }
    for stack in sorted((before / "stacks").glob("Pulumi.*.yaml")):
        for section in ("queues", "topology", "scheduler"):
            commands[f"{section} of {stack.name}"] = [section, "check", "-o", "json", str(stack)]
    return commands


def answer(checkout: Path, arguments: list[str]) -> Facts:
    """Run a command of a checkout; return what it states: its exit code, each finding, and each value of its JSON."""
    program = checkout / ".venv" / "bin" / "trainyard"
    done = subprocess.run([program, *arguments], cwd=checkout, capture_output=True, text=True, check=False)
    facts = Counter([f"exit code {done.returncode}"])
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        facts[(done.stdout + done.stderr).strip().rpartition("\n")[2]] += 1
        return facts
    facts.update(facts_of(document, ""))
    return Counter({fact: 1 if fact.startswith("keys of ") else count for fact, count in facts.items()})


def facts_of(value: Any, path: str) -> Iterator[str]:
    """Yield what a JSON value states; a finding, a job and a converted job have their name in place of an index."""
    if isinstance(value, dict):
        if "path" in value and "message" in value:
            fields = ("rule", "severity", "file", "object", "path")
            place = re.sub(r"\[[^]]*\]", "[]", path)
            yield f"keys of {place}: {', '.join(sorted(value))}"
            yield " ".join([*(str(value.get(key) or "-") for key in fields), path.rpartition("[")[0]])
        elif value.get("trainJob") and value.get("errors"):
            paths = sorted({f"{each.get('rule') or ''} {each['path']}".strip() for each in value["errors"]})
            yield f"{path} rejected: {', '.join(paths)}"
        elif "rule" in value and "case" in value:
            yield f"{value['rule']} {re.sub('^(allow|deny|warn)-', '', value['case'])} {value.get('fault') or 'passed'}"
        else:
            for key, each in value.items():
                if key not in TEXTS or key == "notes":
                    yield from facts_of(each, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}[]"
        for number, each in enumerate(value):
            yield from facts_of(each, f"{path}[{_name(each, number)}]")
    else:
        yield f"{path}: {json.dumps(value)}"


def _name(value: Any, number: int) -> str:
    if not isinstance(value, dict):
        return str(number)
    if "message" in value:
        return ""
    metadata = value.get("metadata")
    name = value.get("trainJob") or value.get("source") or value.get("name")
    return str(name or (f"{value.get('kind')} {metadata.get('name')}" if isinstance(metadata, dict) else number))


def compare(name: str, before: Facts, after: Facts, intended: list[Intended]) -> tuple[Counter[str], list[str]]:
    """Return how many differences each reason explains, and those that none explains."""
    explained: Counter[str] = Counter()
    unexplained: list[str] = []
    # A job that only one version rejects has no objects there: that is one difference.
    rejected = {fact.partition(" rejected: ")[0] for fact in {*before, *after} if " rejected: " in fact}
    for sign, facts in (("-", before - after), ("+", after - before)):
        for fact in sorted(facts.elements()):
            if " rejected: " not in fact and any(fact.startswith(job) for job in rejected):
                continue
            reasons = [each.reason for each in intended if each.explains(name, f"{sign} {fact}")]
            explained.update(reasons[:1])
            unexplained += [] if reasons else [f"{sign} {fact}"]
    return explained, unexplained


def main() -> int:
    """Print every difference that is not intended, and how many each intended change explains."""
    before, after = (Path(each).resolve() for each in sys.argv[1:])
    intended = intended_differences()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in corpora(Path(folder), before).items():
            facts = [
                Counter({each.replace(folder, ""): count for each, count in answer(checkout, arguments).items()})
                for checkout in (before, after)
            ]
            explained, unexplained = compare(name, *facts, intended)
            failed += bool(unexplained)
            equal = sum((facts[0] & facts[1]).values())
            counts = f"{equal} equal, {sum(explained.values())} intended, {len(unexplained)} unexplained"
            print(f"{name}: {counts}")
            for reason, count in explained.most_common():
                print(f"    {count:5} {reason}")
            print(*(f"    {each[:300]}" for each in unexplained[:SHOWN]), sep="\n", end="\n" if unexplained else "")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
