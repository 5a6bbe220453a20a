"""The shipped rules and their cases, read once in a process."""

from __future__ import annotations

from typing import Final

from trainyard.data import data_folder
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.case_files import load_cases

POLICIES: Final = data_folder("policies")
RULES: Final = load_rules(POLICIES)
CASES: Final = load_cases(POLICIES, RULES)
