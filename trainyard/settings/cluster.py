"""Settings of the control plane."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from trainyard.settings.settings_model import DnsLabel, SettingsModel

__all__ = ["ClusterProvider", "ClusterSettings"]


class ClusterProvider(StrEnum):
    """Providers of a control plane."""

    EMBEDDED = "embedded"
    KIND = "kind"
    EXISTING = "existing"


class ClusterSettings(SettingsModel):
    """The cluster that a stack provisions."""

    provider: ClusterProvider = Field(
        description="embedded: real control plane on this machine with simulated nodes; kind: Kubernetes in "
        "containers; existing: an existing cluster"
    )
    name: DnsLabel | None = Field(default=None, description="Name of the cluster; default: the stack's name")
    kubeconfig: str | None = Field(
        default=None,
        description="Path of the kubeconfig file (existing only); default: KUBECONFIG or ~/.kube/config",
    )
    context: str | None = Field(default=None, description="Context of the kubeconfig; required for existing")

    @model_validator(mode="after")
    def _existing_names_its_context(self) -> ClusterSettings:
        if self.provider is ClusterProvider.EXISTING and not self.context:
            raise ValueError(
                "provider existing requires context: set the kubeconfig context, so that the stack is never "
                "applied to whichever context is current"
            )
        if self.provider is not ClusterProvider.EXISTING and (self.context or self.kubeconfig):
            raise ValueError(f"context and kubeconfig require provider existing, not {self.provider.value}")
        return self
