"""Generate the tables of docs/explain.md from the declared causes: ``python -m trainyard.reference.causes``."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.explain import FAMILIES, Family

__all__ = ["cause_tables"]


def cause_tables() -> str:
    """Return a Markdown table of the causes of each family."""
    return "\n\n".join("\n".join(_table(family)) for family in FAMILIES.values()) + "\n"


def _table(family: Family) -> Iterator[str]:
    yield f"### {family.name}"
    yield "| cause | looks at | example |"
    yield "|---|---|---|"
    for cause in family.causes:
        found = cause.found(**cause.example)
        example = f"{found.message[0].upper()}{found.message[1:]}. *Fix:* {found.fix}."
        cells = (f"`{cause.id}`: {cause.title}", cause.looks_at, example)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    print(cause_tables(), end="")
