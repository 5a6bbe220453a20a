"""Admission policies: one rule model for the API server, the webhook and offline checks."""

from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.admission_rule import Rule
from trainyard.policy.rules.rule_catalog import load_rules

__all__ = ["Rule", "admission_objects", "load_rules"]
