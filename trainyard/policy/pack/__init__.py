"""The rules as a Pulumi policy pack: every Kubernetes object of a stack is reviewed before it is created."""

from trainyard.policy.pack.judging import WHOLE, Pack, Report
from trainyard.policy.pack.resources import Resource
from trainyard.policy.pack.values import NOT_KNOWN, Properties, properties

__all__ = ["NOT_KNOWN", "WHOLE", "Pack", "Properties", "Report", "Resource", "properties"]
