"""Admission policies: one rule, every gate."""

from trainyard.policy.catalogue import load_rules
from trainyard.policy.rule import Rule
from trainyard.policy.validating_admission_policies import admission_objects

__all__ = ["Rule", "admission_objects", "load_rules"]
