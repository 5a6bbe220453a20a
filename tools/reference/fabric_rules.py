"""Generate the rule table of docs/fabric.md: ``python -m tools.reference.fabric_rules docs/fabric.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from trainyard.scheduling.topology.rules import RULES

START, END = "<!-- rules -->", "<!-- end of rules -->"


def rules_table() -> str:
    """Return the rules as a Markdown table."""
    lines = ["| rule | severity | requirement | effect of a violation on Volcano 1.14.1 |", "|---|---|---|---|"]
    for rule in sorted(RULES.values(), key=lambda each: each.id):
        lines.append(f"| `{rule.id}` | {rule.severity.value} | {rule.title} | {rule.effect} |")
    return "\n".join(lines)


def with_rules(text: str) -> str:
    """Return a page with the current table of rules between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{rules_table()}\n{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_rules(page.read_text()))
