"""Write all generated reference pages and tables again: ``make generate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.reference import api, settings, surface
from tools.reference.causes import cause_tables
from tools.reference.fabric_rules import with_rules
from tools.reference.queue_rules import rule_table
from tools.reference.surface_ledger import load_ledger
from tools.reference.surface_rbac import with_table
from trainyard.data import data_folder
from trainyard.policy.rule_reference import reference as rule_reference
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"


def _rules() -> str:
    folder = data_folder("policies")
    rules = load_rules(folder)
    return rule_reference(rules, load_cases(folder, rules))


def _with_tail(page: str, tail: str) -> str:
    """Return a page whose last part begins like the generated one."""
    return page[: page.index(tail.splitlines()[0] + "\n")] + tail


def _with_queue_rules(page: str) -> str:
    table = rule_table().splitlines()
    lines = page.splitlines()
    start = lines.index(table[0])
    end = next((place for place in range(start, len(lines)) if not lines[place].startswith("|")), len(lines))
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


PAGES: Final[dict[str, Callable[[str], str]]] = {
    "reference/api.md": lambda _: api.reference(),
    "bypass.md": lambda page: with_table(page, load_ledger()),
    "explain.md": lambda page: _with_tail(page, cause_tables()),
    "fabric.md": with_rules,
    "queues.md": _with_queue_rules,
    "reference/rules.md": lambda _: _rules(),
    "reference/settings.md": lambda _: settings.reference(),
    "reference/surface.md": lambda _: surface.reference(load_ledger()),
}
"""Pages of docs/ that are generated, whole or in part: from the present text to the new one."""


def stale() -> list[str]:
    """Return the pages that differ from what the code generates."""
    texts = {name: (DOCS / name).read_text() for name in PAGES}
    return [name for name, text in texts.items() if PAGES[name](text) != text]


if __name__ == "__main__":
    for name in stale():
        (DOCS / name).write_text(PAGES[name]((DOCS / name).read_text()))
        print(f"docs/{name}")
