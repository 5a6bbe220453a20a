"""Admission policies: one rule, every gate."""

from trainyard.policy.admission import admission_objects
from trainyard.policy.catalogue import load_rules
from trainyard.policy.rule import Rule

__all__ = ["Rule", "admission_objects", "load_rules"]
