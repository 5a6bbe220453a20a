"""Pulumi policy pack: reviews every Kubernetes object of a stack before it is created."""

from trainyard.policy.pack.review_pack import REVIEW_VARIABLE, WHOLE, PolicyPack, Report
from trainyard.policy.pack.stack_resources import Resource
from trainyard.policy.pack.stack_values import NOT_KNOWN, Properties, properties

__all__ = ["NOT_KNOWN", "REVIEW_VARIABLE", "WHOLE", "PolicyPack", "Properties", "Report", "Resource", "properties"]
