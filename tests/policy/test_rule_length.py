"""Length of rules: what a rule decides fits on a screen; what it collects is shared in policies/lib."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.shipped import POLICIES

MOST_LINES = 60
"""Lines of the block ``cel`` of a rule.yaml, and of a rule.rego."""
MOST_SHARED_LINES = 80
"""Lines of a file of policies/lib."""
LONGER = {
    "lib/accelerators.rego": "one definition for each kind of pattern",
    "lib/amounts.rego": "one definition for each place of amounts",
    "lib/decision.rego": "the entry point, which is one procedure",
    "lib/pod_templates.rego": "one list for each kind with pod templates",
    "lib/request.rego": "accessors of one line",
}
"""Files that are not shortened, with the reason."""
RULES = sorted(POLICIES.glob("*/*/rule.yaml"))
REGO = sorted(POLICIES.glob("*/*/rule.rego"))
SHARED = sorted([*POLICIES.glob("lib/*.rego"), *POLICIES.glob("lib/*.cel.yaml")])


def name(path: Path) -> str:
    return path.relative_to(POLICIES).as_posix()


def cel_block(path: Path) -> list[str]:
    """Return the lines of the block ``cel``, without the fields around it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if "cel:" not in lines:
        return []
    start = lines.index("cel:")
    end = next((i for i, line in enumerate(lines[start + 1 :], start + 1) if line and line[0] != " "), len(lines))
    return lines[start:end]


@pytest.mark.parametrize("path", RULES, ids=name)
def test_the_cel_of_a_rule_fits_on_a_screen(path: Path) -> None:
    assert len(cel_block(path)) <= MOST_LINES, "move what the rule collects to a fragment of policies/lib"


@pytest.mark.parametrize("path", REGO, ids=name)
def test_the_rego_of_a_rule_fits_on_a_screen(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, "move what it collects to policies/lib"


@pytest.mark.parametrize("path", SHARED, ids=name)
def test_a_shared_file_is_short_or_listed(path: Path) -> None:
    is_short = len(path.read_text(encoding="utf-8").splitlines()) <= MOST_SHARED_LINES
    assert is_short is (name(path) not in LONGER), "one concept per file"
