"""Admission policies: one rule model for the API server, the webhook and offline checks."""

from trainyard.policy.admission_rule import Rule
from trainyard.policy.rule_catalog import load_rules
from trainyard.policy.validating_admission_policies import admission_objects

__all__ = ["Rule", "admission_objects", "load_rules"]
