"""Rule model: ``rule.yaml``, and the CEL fragments that rules share."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from trainyard.checks.finding import Severity
from trainyard.policy.parameters import ParameterSchema, ParameterValue, parameter_problem
from trainyard.settings.platform import PolicyState
from trainyard.settings.settings_model import SettingsModel

__all__ = [
    "LISTED",
    "PARTS",
    "Cel",
    "Expression",
    "Fragment",
    "Gate",
    "Match",
    "ParameterSource",
    "Part",
    "Reach",
    "Rule",
    "Sight",
    "Unseen",
    "Validation",
]

_PLACEHOLDER = re.compile(r"\{([a-z][A-Za-z]*)\}")
_PARAMS = re.compile(r"\bparams\b")
LISTED: Final = re.compile(r"\{(?P<source>platform|parameters)\.(?P<name>[a-z][A-Za-z]*)(?P<pairs>=?)\}")
"""Stands for the texts of a list, or for what they say after the sign =: a Platform's field or a rule's parameter."""

Part = Literal["spec", "labels", "annotations"]
PARTS: Final[tuple[Part, ...]] = ("spec", "labels", "annotations")
"""What rules judge of an object."""

RuleId = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}-[0-9]{3}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z]*$")]


class Gate(StrEnum):
    """What enforces a rule in a cluster: a part of the API server, or the webhook by the policy server."""

    CRD = "crd"
    ADMISSION = "admission"
    OPA = "opa"


class Sight(StrEnum):
    """What a rule must see beside the request itself."""

    REQUEST = "request"
    RUNTIME = "runtime"


class ParameterSource(StrEnum):
    """The object whose values a rule judges by."""

    NONE = "none"
    TENANT_POLICY = "TenantPolicy"
    PLATFORM = "Platform"


class Reach(StrEnum):
    """The namespaces a rule binds."""

    EVERYWHERE = "everywhere"
    TENANTS = "tenants"
    LABELLED = "labelled"


class Match(SettingsModel):
    """One kind that a rule judges."""

    group: str = Field(description="API group; empty for the core group")
    version: str = Field(description="API version")
    kind: str = Field(description="Kind")
    resource: str = Field(
        pattern=r"^[a-z]+(/ephemeralcontainers)?$",
        description="Plural name; of the subresources only the one that adds ephemeral containers is matched",
    )
    operations: tuple[Literal["CREATE", "UPDATE", "DELETE"], ...] = Field(default=("CREATE", "UPDATE"), min_length=1)
    scope: Literal["Namespaced", "Cluster"] = "Namespaced"
    touching: tuple[Part, ...] = Field(
        default=PARTS,
        min_length=1,
        description="An update is judged where it changes one of these; fewer where the platform writes the rest",
    )

    @property
    def built_in(self) -> bool:
        """Whether Kubernetes itself owns the kind, so that it occurs in namespaces that know nothing of Trainyard."""
        return "." not in self.group

    @property
    def api_version(self) -> str:
        """Group and version as objects spell them."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Expression(SettingsModel):
    """A named CEL expression."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z-]*$")]
    expression: str


class Validation(SettingsModel):
    """One thing that must be true.

    Parameters
    ----------
    expression
        CEL, true where the object is as it should be.
    path
        Field path of the violation, where it is always the same one.
    paths
        CEL, the field paths of the violations joined by a comma, where they depend on the object.
    message
        What is wrong; ``{name}`` stands for the value of the same name.
    values
        CEL expressions of type string, by the name used in the message.
    """

    expression: str
    path: str | None = None
    paths: str | None = None
    message: str
    values: dict[Name, str] = Field(default={})

    @model_validator(mode="after")
    def _complete(self) -> Validation:
        if (self.path is None) == (self.paths is None):
            raise ValueError("a validation has either path (always the same) or paths (CEL)")
        named, given = set(_PLACEHOLDER.findall(self.message)), set(self.values)
        if named != given:
            raise ValueError(f"the message names {sorted(named)} but values has {sorted(given)}")
        return self


class Unseen(SettingsModel):
    """What a gate cannot judge, and the stronger one that does."""

    gate: Gate
    what: str = Field(description="What the gate does not see, and why")
    covered: str = Field(description="Which gate judges it instead")


class Fragment(SettingsModel):
    """CEL variables that several rules share: one file of ``policies/lib``."""

    about: str
    variables: tuple[Expression, ...]


class Cel(SettingsModel):
    """The rule in CEL."""

    use: tuple[str, ...] = Field(default=(), description="Fragments of policies/lib, in order")
    variables: tuple[Expression, ...] = ()
    when: tuple[Expression, ...] = Field(default=(), description="Conditions under which the rule judges at all")
    unchanged: bool = Field(
        default=False, description="Whether updates are judged that change neither spec nor labels nor annotations"
    )
    stopping: bool = Field(default=False, description="Whether updates are judged that leave the object suspended")
    validations: tuple[Validation, ...] = Field(min_length=1)

    @property
    def texts(self) -> list[str]:
        """Every expression of the rule."""
        named = [each.expression for each in (*self.variables, *self.when)]
        return named + [
            text for each in self.validations for text in (each.expression, each.paths or "", *each.values.values())
        ]


class Rule(SettingsModel):
    """One admission rule: the content of ``rule.yaml`` and the family its folder lies in."""

    id: RuleId
    family: str
    slug: str
    title: str
    description: str
    severity: Severity
    state: PolicyState = Field(description="What a violation causes where the stack says nothing else")
    since: str
    gate: Gate = Gate.ADMISSION
    sees: Sight = Sight.REQUEST
    audited: bool = Field(
        default=True,
        description="Whether existing objects can be checked; false where it matters who writes, which no object tells",
    )
    unseen: tuple[Unseen, ...] = ()
    reach: Reach
    matches: tuple[Match, ...] = Field(min_length=1)
    source: ParameterSource = ParameterSource.NONE
    parameters: dict[Name, ParameterSchema] = Field(default={})
    mentions: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = Field(
        default=(),
        description="Texts, as JSON writes them, of which a request has one where the rule finds anything; "
        "{platform.FIELD} and {parameters.NAME} stand for the texts of a list, or, where they are true, for any "
        "request; {parameters.NAME=} for what its texts say after the sign =, up to a final *. "
        "None where the rule finds what is absent",
    )
    fix: str
    references: tuple[str, ...] = ()
    cel: Cel | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        if (self.gate is Gate.ADMISSION) != (self.cel is not None):
            raise ValueError("a rule of gate admission has cel; one of gate crd has none, because the CRD carries it")
        if self.gate is Gate.OPA and not self.unseen:
            raise ValueError("a rule of gate opa says under unseen why the API server cannot judge it")
        if self.sees is not Sight.REQUEST and self.gate is not Gate.OPA:
            raise ValueError("a policy of the API server sees the request only: a rule that sees more is of gate opa")
        if self.source is ParameterSource.TENANT_POLICY and any(match.scope == "Cluster" for match in self.matches):
            raise ValueError(
                "a TenantPolicy lies in a namespace: a rule that reads it cannot match kinds of scope Cluster"
            )
        if self.reach is Reach.LABELLED and self.source is not ParameterSource.NONE:
            raise ValueError("a rule of reach labelled reads no parameter object: the label already says what it binds")
        if self.source is not ParameterSource.NONE and any("DELETE" in match.operations for match in self.matches):
            raise ValueError(
                "a rule that reads parameters cannot match DELETE: a missing parameter would hold a namespace for ever"
            )
        if self.cel is not None and any(map(_PARAMS.search, self.cel.texts)):
            raise ValueError(
                "cel: policies have no params; use the variables of policies/lib/tenant-policy.cel.yaml or "
                "platform.cel.yaml, which come with the rule's source"
            )
        for listed in filter(None, map(LISTED.fullmatch, self.mentions)):
            if listed["source"] == "parameters" and listed["name"] not in self.parameters:
                raise ValueError(f"mentions: there is no parameter {listed['name']!r}")
            if listed["source"] == "platform" and self.source is not ParameterSource.PLATFORM:
                raise ValueError("mentions: a rule of another source does not read the Platform")
        for name, schema in self.parameters.items():
            if problem := parameter_problem(schema, schema.default):
                raise ValueError(f"parameters.{name}.default: {problem}")
        return self

    def parameter_values(self, overrides: dict[str, object]) -> dict[str, ParameterValue]:
        """Return the rule's parameters: its defaults and what a stack says instead.

        Raises
        ------
        ValueError
            A name is unknown or a value does not fit its schema.
        """
        if unknown := sorted(set(overrides) - set(self.parameters)):
            raise ValueError(f"unknown parameter {unknown[0]!r}; {self.id} has {', '.join(self.parameters) or 'none'}")
        values: dict[str, ParameterValue] = {}
        for name, schema in self.parameters.items():
            value = overrides.get(name, schema.default)
            if problem := parameter_problem(schema, value):
                raise ValueError(f"{name}: {problem}")
            values[name] = list(value) if isinstance(value, list | tuple) else value  # type: ignore[assignment]
        return values
