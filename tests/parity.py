"""Comparison of two checkouts: what their command lines answer about the same corpora.

``python -m tests.parity BEFORE AFTER`` shows that a change of names and texts changes no decision: exit codes, rule
ids, paths, objects and JSON keys are equal; messages and fixes may differ. Both checkouts have their environment (`make
.venv/.ready`). The corpora are those of this checkout: every object of a rule's cases, the inputs of conversions, the
runtimes, and the settings of the stacks. Exit code 1: there is a difference, which is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard.data import data_folder
from trainyard.policy import load_rules
from trainyard.policy.testing.case_files import load_cases

ROOT: Final = Path(__file__).resolve().parent.parent
TEXTS: Final = frozenset({"message", "fix", "title", "description", "seconds", "notes"})
"""Fields that people read and nothing matches on."""

Answer = tuple[int, Any]


def corpora(folder: Path) -> dict[str, list[str]]:
    """Write the corpora into an empty folder; return the arguments of each command by its name."""
    objects = folder / "objects"
    objects.mkdir()
    for number, case in enumerate(load_cases(data_folder("policies"), load_rules())):
        body = case.content.object
        if body is not None and case.operation == "CREATE" and case.is_stored:
            (objects / f"{number:05}.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    inputs = [str(each) for each in sorted((ROOT / "tests/convert/inputs").glob("*.yaml"))]
    stacks = [str(each) for each in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))]
    jobs = [str(each) for each in sorted(objects.iterdir()) if "kind: TrainJob\n" in each.read_text()]
    commands = {
        "check of the cases": ["check", "--format", "json", str(objects)],
        "check of the runtimes": ["check", "--format", "json", str(ROOT / "runtimes")],
        "render": ["render", "-o", "json", *jobs],
        "convert": ["convert", "-o", "json", *inputs],
        "cases of the rules": ["policy", "test", "-o", "json"],
    }
    for stack in stacks:
        for section in ("queues", "topology", "scheduler"):
            commands[f"{section} of {Path(stack).name}"] = [section, "check", "-o", "json", stack]
    return commands


def answer(checkout: Path, arguments: list[str]) -> Answer:
    """Return the exit code and the JSON of a command, without texts; what is no JSON is its last line."""
    program = checkout / ".venv" / "bin" / "trainyard"
    done = subprocess.run([program, *arguments], cwd=checkout, capture_output=True, text=True, check=False)
    try:
        return done.returncode, without_texts(json.loads(done.stdout))
    except json.JSONDecodeError:
        return done.returncode, (done.stdout + done.stderr).strip().rpartition("\n")[2]


def without_texts(value: Any) -> Any:
    """Return a value without the fields that people read."""
    if isinstance(value, dict):
        return {key: without_texts(each) for key, each in value.items() if key not in TEXTS}
    return [without_texts(each) for each in value] if isinstance(value, list) else value


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two answers differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif before != after:
        yield f"{path}: {json.dumps(before)[:300]} -> {json.dumps(after)[:300]}"


def main() -> int:
    """Print every difference, and how many answers were compared."""
    before, after = (Path(each).resolve() for each in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        commands = corpora(Path(folder))
        different = 0
        for name, arguments in commands.items():
            found = list(differences(answer(before, arguments), answer(after, arguments)))
            different += bool(found)
            print(f"{'different' if found else 'equal':9}  {name}", *found[:20], sep="\n    ")
    print(f"{len(commands)} answers compared, {different} different")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
