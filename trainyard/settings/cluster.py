"""Settings of the control plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Protocol

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticKnownError

from trainyard.discovery import RegistryPlugin, registered
from trainyard.settings.settings_model import Choices, Described, DnsLabel, SettingsModel

_REGISTRY: Final = "trainyard.local.cluster.providers:PROVIDERS"


class _Provider(RegistryPlugin, Protocol):
    """What the settings know of a provider."""

    @property
    def summary(self) -> str:
        """What it provides."""

    @property
    def takes_context(self) -> bool:
        """Whether the settings name a context."""

    @property
    def takes_node_image(self) -> bool:
        """Whether the settings may name the image of the nodes."""


def _providers() -> Mapping[str, _Provider]:
    found: Mapping[str, _Provider] = registered(_REGISTRY)
    return found


def provider_names() -> tuple[str, ...]:
    """Return the names of the cluster providers."""
    return tuple(_providers())


def _known(value: object) -> object:
    names = provider_names()
    if value not in names:
        *first, last = map(repr, names)
        raise PydanticKnownError("enum", {"expected": f"{', '.join(first)} or {last}"})
    return value


def _summaries() -> str:
    return "; ".join(f"{name}: {each.summary}" for name, each in _providers().items())


def _with_context() -> str:
    return " or ".join(name for name, each in _providers().items() if each.takes_context)


def _about_kubeconfig() -> str:
    return f"Path of the kubeconfig file ({_with_context()} only); default: the files of KUBECONFIG, or ~/.kube/config"


def _about_context() -> str:
    return f"Context of the kubeconfig; required for {_with_context()}"


def _with_node_image() -> str:
    return " or ".join(name for name, each in _providers().items() if each.takes_node_image)


def _about_node_image() -> str:
    return (
        f"Image of the nodes ({_with_node_image()} only); default: this project's where the engine has it, "
        "else docker.io/kindest/node"
    )


class ClusterSettings(SettingsModel):
    """The cluster that a stack provisions."""

    provider: Annotated[str, BeforeValidator(_known), Choices(provider_names), Described(_summaries)] = Field(
        description="Provider of the control plane"
    )
    name: DnsLabel | None = Field(default=None, description="Name of the cluster; default: the stack's name")
    kubeconfig: Annotated[str | None, Described(_about_kubeconfig)] = Field(
        default=None, description="Path of the kubeconfig file"
    )
    context: Annotated[str | None, Described(_about_context)] = Field(
        default=None, description="Context of the kubeconfig"
    )

    node_image: Annotated[str | None, Described(_about_node_image)] = Field(
        default=None, min_length=1, description="Image of the nodes"
    )

    @property
    def exists(self) -> bool:
        """Whether the cluster and its nodes exist before the stack."""
        return _providers()[self.provider].takes_context

    @model_validator(mode="after")
    def _context_is_set_where_it_is_read(self) -> ClusterSettings:
        if self.exists and not self.context:
            raise ValueError(
                f"provider {self.provider} requires context: set the kubeconfig context, so that the stack is never "
                "applied to whichever context is current"
            )
        if not self.exists and (self.context or self.kubeconfig):
            raise ValueError(f"context and kubeconfig require provider {_with_context()}, not {self.provider}")
        if self.node_image and not _providers()[self.provider].takes_node_image:
            raise ValueError(f"nodeImage requires provider {_with_node_image()}, not {self.provider}")
        return self
