"""Generate the tables of docs/queues.md from the rules: ``python -m tools.reference.queue_rules``."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.scheduling.queues.queue_rule import QueueRule
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, SharePlugin


def rule_table() -> str:
    """Return all rules as a Markdown table."""
    return "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    yield "| rule | requirement | severity | applies to | rejected by | effect of a violation |"
    yield "|---|---|---|---|---|---|"
    for rule in sorted(RULES.values(), key=lambda each: each.id):
        refused = ", ".join(rule.rejected_by) or "–"
        cells = (f"`{rule.id}`", rule.title, rule.severity.value, _where(rule), refused, rule.effect)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _where(rule: QueueRule) -> str:
    parts = [] if rule.versions == VOLCANO_VERSIONS else [", ".join(rule.versions)]
    if rule.plugins:
        parts.append(" or ".join(plugin.value for plugin in SharePlugin if plugin in rule.plugins))
    return "; ".join(parts) or "all"


if __name__ == "__main__":
    print(rule_table(), end="")
