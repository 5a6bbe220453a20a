"""Settings of the NetworkPolicies that the stack declares."""

from __future__ import annotations

import ipaddress
from typing import Self

from pydantic import Field, field_validator, model_validator

from trainyard.settings.settings_model import DnsLabel, SettingsModel, invalid


class NetworkPolicySettings(SettingsModel):
    """NetworkPolicies, which take effect where the cluster's network plug-in enforces them."""

    tenants: bool = Field(
        default=False,
        description="true: pods of a tenant accept connections only from the tenant's own pods and from fromNamespaces",
    )
    from_namespaces: tuple[DnsLabel, ...] = Field(
        default=(), description="Namespaces whose pods reach those of all tenants, such as that of a gateway"
    )
    egress_to: tuple[str, ...] | None = Field(
        default=None,
        description="Address blocks that pods of tenants reach beside their own tenant, DNS and progress reports, such "
        "as `10.20.0.0/16` of an object store; default: all addresses",
    )
    webhooks_from: tuple[str, ...] | None = Field(
        default=None,
        description="Address blocks of the API servers, such as `10.0.0.0/28`: they and pods of kube-system reach the "
        "webhooks of the platform, and with progress reports pods of tenants those of the controller; default: all "
        "addresses",
    )
    metrics_from: tuple[DnsLabel, ...] | None = Field(
        default=None,
        description="Namespaces whose pods, such as Prometheus, reach the metrics of Volcano, which have no login, "
        "and of the controller; default: all pods",
    )

    @field_validator("egress_to", "webhooks_from")
    @classmethod
    def _blocks(cls, blocks: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for block in blocks or ():
            try:
                ipaddress.ip_network(block)
            except ValueError as error:
                raise invalid(str(error), "write a block of addresses such as 10.20.0.0/16") from error
        return blocks

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = {"fromNamespaces": bool(self.from_namespaces), "egressTo": self.egress_to is not None}
        for name, is_given in given.items():
            if is_given and not self.tenants:
                raise invalid(f"{name} has no effect without tenants: true", f"set tenants: true, or remove {name}")
        return self
