"""Settings of the control plane."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, model_validator

from trainyard.settings.base import DnsLabel, SettingsModel

__all__ = ["ClusterProvider", "ClusterSettings"]


class ClusterProvider(StrEnum):
    """The providers of a control plane."""

    EMBEDDED = "embedded"
    KIND = "kind"
    EXISTING = "existing"


class ClusterSettings(SettingsModel):
    """The cluster that a stack provisions."""

    provider: ClusterProvider = Field(
        description="embedded: real control plane on this machine with simulated nodes; kind: Kubernetes in "
        "containers; existing: a cluster that is already there"
    )
    name: DnsLabel | None = Field(default=None, description="Name of the cluster; the stack's name when absent")
    kubeconfig: str | None = Field(
        default=None,
        description="Path of the kubeconfig file (existing only); KUBECONFIG or ~/.kube/config when absent",
    )
    context: str | None = Field(default=None, description="Context in the kubeconfig; must be named for existing")

    @model_validator(mode="after")
    def _existing_names_its_context(self) -> ClusterSettings:
        if self.provider is ClusterProvider.EXISTING and not self.context:
            raise ValueError(
                "provider existing needs context: name the kubeconfig context, so that no stack is "
                "applied to whatever context happens to be current"
            )
        if self.provider is not ClusterProvider.EXISTING and (self.context or self.kubeconfig):
            raise ValueError(f"context and kubeconfig belong to provider existing, not {self.provider.value}")
        return self
