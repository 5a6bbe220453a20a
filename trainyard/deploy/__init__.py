"""The Pulumi program through the Automation API: the one place that drives Pulumi."""

from trainyard.deploy.operations import destroy, preview, refresh, up
from trainyard.deploy.result import Change, Result

__all__ = ["Change", "Result", "destroy", "preview", "refresh", "up"]
