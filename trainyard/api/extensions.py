"""Extension points of the API: policies whose fields are declared by plug-ins, one file a plug-in.

A framework is a field of ``mlPolicy`` and a gang scheduler one of ``podGroupPolicy``; the plug-in that renders it
declares the field too. The API is below the plug-ins and imports none of them: like an entry point, a registry is found
by its name, when the schema of a policy is first built.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from trainyard.api.kubernetes_model import KubernetesModel
from trainyard.api.shape_rule import ShapeRule, validations
from trainyard.discovery import registered

Policy = TypeVar("Policy", bound=KubernetesModel)


class PolicyField(Generic[Policy]):
    """One field of an extensible policy."""

    name: ClassVar[str]
    """Name of the field."""
    order: ClassVar[int]
    """Position among the fields, in schemas and in texts for users; unique."""
    summary: ClassVar[str]
    """Description of the field."""
    policy_model: type[Policy]
    """Schema of the field."""
    rules: ClassVar[tuple[ShapeRule, ...]] = ()
    """Rules about this field and others of the same policy."""
    added: ClassVar[str | None] = None
    """Why the field is here, where no release of upstream has it."""


class ExtensiblePolicy(KubernetesModel):
    """A policy with one field a plug-in, of which at most one is set."""

    registry: ClassVar[str]
    """Where the plug-ins are: ``module:attribute``."""

    @classmethod
    def plugins(cls) -> Mapping[str, PolicyField[Any]]:
        """Return the plug-ins by the name of their field."""
        found: Mapping[str, PolicyField[Any]] = registered(cls.registry)
        return found

    @classmethod
    def exclusive(cls, names: tuple[str, ...]) -> ShapeRule:
        """Return the rule that at most one of the fields is set."""
        raise NotImplementedError

    @classmethod
    def shape_rules(cls) -> tuple[ShapeRule, ...]:
        """Return the rules that the policy carries."""
        plugins = cls.plugins()
        return (cls.exclusive(tuple(plugins)), *(rule for plugin in plugins.values() for rule in plugin.rules))

    def of(self, plugin: type[PolicyField[Policy]]) -> Policy | None:
        """Return the field of a plug-in, None where it is unset."""
        value: Policy | None = getattr(self, plugin.name, None)
        return value

    def chosen(self) -> tuple[str, ...]:
        """Return the plug-ins whose fields are set; more than one is a mistake."""
        return tuple(name for name in self.plugins() if getattr(self, name) is not None)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Add the fields of the plug-ins before the schema is built."""
        if "registry" in cls.__dict__:
            for name, plugin in cls.plugins().items():
                if name not in cls.model_fields:
                    field = Field(default=None, alias=name, description=plugin.summary)
                    optional: Any = plugin.policy_model | None
                    cls.model_fields[name] = FieldInfo.from_annotated_attribute(optional, field)
            cls.model_config["json_schema_extra"] = validations(*cls.shape_rules())
        return handler(source)


def model_of(policy: type[ExtensiblePolicy], name: str) -> type[KubernetesModel]:
    """Return a model by its name, from the modules of a policy's plug-ins.

    Raises
    ------
    AttributeError
        There is none.
    """
    if not name.startswith("_"):
        for plugin in policy.plugins().values():
            found = getattr(sys.modules[type(plugin).__module__], name, None)
            if isinstance(found, type) and issubclass(found, KubernetesModel):
                return found
    raise AttributeError(f"module {policy.__module__!r} has no attribute {name!r}")
