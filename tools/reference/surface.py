"""Generate docs/reference/surface.md from the ledger: ``make generate``."""

from __future__ import annotations

from collections.abc import Iterator

from tools.reference.surface_ledger import NAMED, Entry, SurfaceLedger, load_ledger

_INTRODUCTION = """\
# Attack surface

Everything that a tenant can write and that a component acts on, with what prevents that it affects others: a rule,
RBAC, or the code that reads it. "Wide rights" are those of a user with the ClusterRole `edit` or more, which no role
of a tenant has. Fields of a type that others embed, such as `PodSpec`, are listed once and hold wherever the type
occurs: in Pods, Jobs, JobSets, Volcano Jobs, runtimes, and patches and overrides of TrainJobs.

Generated from `policies/surface` by `python -m tools.reference.surface`. A test walks the schemas of the pinned
Kubernetes, JobSet and Volcano and of the project's own kinds, and fails for a field without an entry, an entry without
a field, and code that does not exist.
"""

_OPEN = """\

## Not prevented

No rule evaluates these, or only a part. The number of entries can only fall.
"""


_NODE = """\

## Prevented by the nodes

No request shows these, so no rule can evaluate them. The configuration of the nodes prevents them.
"""

_ACCEPTED = """\

## Accepted

No admission can decide these. The effect is limited as stated.
"""


def reference(ledger: SurfaceLedger) -> str:
    """Return the page as Markdown."""
    entries = list(ledger.all())
    numbers = ", ".join(f"{sum(map(test, (each for _, each in entries)))} {name}" for name, test in _VERDICTS.items())
    lines = [
        _INTRODUCTION,
        f"\n{len(entries)} entries: {numbers}.\n",
    ]
    for introduction, verdict in ((_OPEN, "open"), (_NODE, "node"), (_ACCEPTED, "accepted")):
        lines += [introduction, "", "| written | read by | effect | rules |", "|---|---|---|---|"]
        for name, entry in entries:
            if text := getattr(entry, verdict):
                lines.append(f"| {_where(name, entry)} | {entry.by} | {_cell(text)} | {_rules(entry)} |")
    for name, found in sorted(ledger.entries.items(), key=lambda item: (item[0] in NAMED, item[0])):
        lines += _section(name, found)
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


_VERDICTS = {
    "that a rule evaluates": lambda entry: bool(entry.rules),
    "harmless": lambda entry: bool(entry.harmless),
    "only behind RBAC": lambda entry: bool(entry.rbac),
    "that the nodes must prevent": lambda entry: bool(entry.node),
    "accepted": lambda entry: bool(entry.accepted),
    "not prevented, or only in part": lambda entry: bool(entry.open),
}


def _section(name: str, entries: tuple[Entry, ...]) -> Iterator[str]:
    if not entries:
        return
    yield f"\n## {name}\n"
    yield "| written | read by | verdict |"
    yield "|---|---|---|"
    for entry in entries:
        yield f"| {_paths(entry)} | {entry.by} | {_verdict(entry)} |"


def _verdict(entry: Entry) -> str:
    if entry.harmless:
        return _cell(f"harmless: {entry.harmless} ({', '.join(f'`{each}`' for each in map(_code, entry.code))})")
    if entry.rbac:
        return _cell(f"RBAC: {entry.rbac}")
    parts = [f"{_rules(entry)}: {entry.effect}"] if entry.rules else []
    for title, text in (("not prevented", entry.open), ("by the nodes", entry.node), ("accepted", entry.accepted)):
        parts += [f"**{title}**: {text}"] if text else []
    return _cell("; ".join(parts))


def _code(reference: str) -> str:
    path, _, symbol = reference.partition(" ")
    return f"{path}: {symbol}"


def _where(name: str, entry: Entry) -> str:
    return f"{name} {_paths(entry)}"


def _paths(entry: Entry) -> str:
    return ", ".join(f"`{path}`" for path in entry.fields)


def _rules(entry: Entry) -> str:
    return ", ".join(f"[{rule}](rules.md#{rule.lower()})" for rule in entry.rules)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(load_ledger()), end="")
