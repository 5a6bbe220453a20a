"""Affinity of the platform's own pods, in Kubernetes' notation."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from trainyard.settings.settings_model import DnsLabel, LabelKey, LabelValue, SettingsModel, invalid


class LabelExpressionSettings(SettingsModel):
    """A requirement on one label."""

    key: LabelKey = Field(description="Label")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="Operator")
    values: tuple[LabelValue, ...] = Field(default=(), description="Values, of In and NotIn")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_values(self.operator, len(self.values))
        return self


class NodeExpressionSettings(SettingsModel):
    """A requirement on one label of nodes."""

    key: LabelKey = Field(description="Label")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(description="Operator")
    values: tuple[LabelValue, ...] = Field(default=(), description="Values, of In and NotIn; one number, of Gt and Lt")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_values(self.operator, len(self.values))
        if self.operator in ("Gt", "Lt") and (len(self.values) != 1 or not self.values[0].isdecimal()):
            raise invalid(f"operator {self.operator} requires one whole number", 'write it as text: values: ["8"]')
        return self


class NodeTermSettings(SettingsModel):
    """Requirements on nodes, all of which apply."""

    match_expressions: tuple[NodeExpressionSettings, ...] = Field(min_length=1, description="Requirements on labels")


class NodeTermsSettings(SettingsModel):
    """Alternative requirements on nodes."""

    node_selector_terms: tuple[NodeTermSettings, ...] = Field(min_length=1, description="Terms, one of which applies")


class PreferredNodeTermSettings(SettingsModel):
    """Preferred nodes."""

    weight: int = Field(ge=1, le=100, description="Weight")
    preference: NodeTermSettings = Field(description="Nodes")


class NodeAffinitySettings(SettingsModel):
    """Affinity to nodes."""

    required_during_scheduling_ignored_during_execution: NodeTermsSettings | None = Field(
        default=None, description="Required nodes"
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTermSettings, ...] = Field(
        default=(), description="Preferred nodes"
    )


class LabelSelectorSettings(SettingsModel):
    """A selector of pods."""

    match_labels: dict[LabelKey, LabelValue] = Field(default={}, description="Labels")
    match_expressions: tuple[LabelExpressionSettings, ...] = Field(default=(), description="Requirements on labels")


class PodAffinityTermSettings(SettingsModel):
    """Pods in the same domain."""

    topology_key: LabelKey = Field(description="Node label of the domains, such as kubernetes.io/hostname")
    label_selector: LabelSelectorSettings | None = Field(
        default=None, description="Pods; default: those of the same program"
    )
    namespaces: tuple[DnsLabel, ...] = Field(default=(), description="Namespaces of the pods; default: its own")


class PreferredPodAffinityTermSettings(SettingsModel):
    """Preferred pods in the same domain."""

    weight: int = Field(ge=1, le=100, description="Weight")
    pod_affinity_term: PodAffinityTermSettings = Field(description="Pods")


class PodAffinitySettings(SettingsModel):
    """Affinity to pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTermSettings, ...] = Field(
        default=(), description="Required terms"
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPodAffinityTermSettings, ...] = Field(
        default=(), description="Preferred terms"
    )


class AffinitySettings(SettingsModel):
    """Affinity of a pod."""

    node_affinity: NodeAffinitySettings | None = Field(default=None, description="Nodes to use")
    pod_affinity: PodAffinitySettings | None = Field(default=None, description="Pods to run beside")
    pod_anti_affinity: PodAffinitySettings | None = Field(default=None, description="Pods to avoid")


def _check_values(operator: str, count: int) -> None:
    if operator in ("In", "NotIn") and not count:
        raise invalid(f"operator {operator} requires values", "add values, or use operator Exists")
    if operator in ("Exists", "DoesNotExist") and count:
        raise invalid(f"operator {operator} cannot have values", "remove values, or use operator In")
