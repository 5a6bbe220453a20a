"""Rule model: ``rule.yaml``, and the CEL fragments that rules share."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, TypeAdapter, model_validator

from trainyard.checks.finding import Severity
from trainyard.policy.rules.entry_validations import expand_entries
from trainyard.policy.rules.forbidden_fields import ForbiddenFields, cel_of
from trainyard.policy.rules.parameters import ParameterSchema, ParameterValue, parameter_error
from trainyard.policy.rules.required_texts import RequiredTexts
from trainyard.settings.platform import PodTemplateSettings, PolicyState
from trainyard.settings.settings_model import SettingsModel

_PLACEHOLDER = re.compile(r"\{([a-z][A-Za-z]*)\}")
_PARAMS = re.compile(r"\bparams\b")

Part = Literal["spec", "labels", "annotations"]
PARTS: Final[tuple[Part, ...]] = ("spec", "labels", "annotations")
"""Parts of an object that rules evaluate."""

POD_CONTROLLERS: Final = (
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("apps", "ReplicaSet"),
    ("batch", "CronJob"),
    ("", "ReplicationController"),
)
"""Groups and kinds, beside Job, whose pods or Jobs the controllers of Kubernetes create."""

SCALED: Final = ("deployments", "statefulsets", "replicasets", "replicationcontrollers")
"""Resources whose replicas also change through the subresource scale."""

RuleId = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}-[0-9]{3}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z]*$")]


class EnforcementPoint(StrEnum):
    """Enforcement point of a rule in a cluster: the CRD, the API server, or the webhook through the policy server."""

    CRD = "crd"
    ADMISSION = "admission"
    OPA = "opa"


class RuleInput(StrEnum):
    """Input that a rule requires besides the request."""

    REQUEST = "request"
    RUNTIME = "runtime"


class ParameterSource(StrEnum):
    """Object that a rule reads parameters from."""

    NONE = "none"
    TENANT_POLICY = "TenantPolicy"
    PLATFORM = "Platform"


MISSING_PARAMETER_FIXES: Final = {
    ParameterSource.TENANT_POLICY: "use the namespace of a tenant; each has a TenantPolicy",
    ParameterSource.PLATFORM: "create the Platform of the cluster with `trainyard up`",
}
"""Fix of a violation about a missing parameter object."""


class Reach(StrEnum):
    """Namespaces to which a rule applies."""

    EVERYWHERE = "everywhere"
    TENANTS = "tenants"
    LABELLED = "labelled"


class Match(SettingsModel):
    """One kind that a rule evaluates."""

    group: str = Field(description="API group; empty for the core group")
    version: str = Field(description="API version")
    kind: str = Field(description="Kind")
    resource: str = Field(
        pattern=r"^[a-z]+(/scale)?$|^(pods|queues|resourcequotas)/(ephemeralcontainers|eviction|resize|status)$|^serviceaccounts/token$",
        description="Plural name; a pattern lists the supported subresources",
    )
    operations: tuple[Literal["CREATE", "UPDATE", "DELETE"], ...] = Field(default=("CREATE", "UPDATE"), min_length=1)
    scope: Literal["Namespaced", "Cluster"] = "Namespaced"
    touching: tuple[Part, ...] = Field(
        default=PARTS,
        min_length=1,
        description="Updates are evaluated only if they change one of these; fewer if the platform writes the others",
    )
    served_in: str = Field(
        default="", pattern=r"^([a-z0-9.-]+/v[0-9a-z]+)?$", description="API of the object of a subresource"
    )
    templates: tuple[PodTemplateSettings, ...] = Field(
        default=(), description="Places of the pod templates of a kind that a stack lists"
    )

    @property
    def built_in(self) -> bool:
        """Whether objects of the kind also occur outside the platform: it is built into Kubernetes, or listed."""
        return "." not in self.group or self.group.endswith(".k8s.io") or bool(self.templates)

    @property
    def api_version(self) -> str:
        """Group and version, as in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def served(self) -> tuple[str, str]:
        """Group and version of the resource; the kind of a subresource, such as Eviction, can have others."""
        if self.served_in:
            group, _, version = self.served_in.partition("/")
            return group, version
        resource, _, subresource = self.resource.partition("/")
        if resource in ("pods", "serviceaccounts", "replicationcontrollers"):
            return "", "v1"
        return ("apps", "v1") if subresource == "scale" else (self.group, self.version)


class Expression(SettingsModel):
    """A named CEL expression."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z-]*$")]
    expression: str


class Validation(SettingsModel):
    """One validation in CEL; with ``each``, it is generated (`trainyard.policy.rules.entry_validations`).

    Parameters
    ----------
    expression
        CEL expression; true if the object is valid.
    path
        Constant field path of the violation.
    paths
        CEL expression: comma-separated field paths of the violations, if they depend on the object.
    message
        Message; ``{name}`` is replaced by the value of that name.
    values
        CEL expressions of type string, by placeholder name.
    """

    expression: str
    path: str | None = None
    paths: str | None = None
    message: str
    values: dict[Name, str] = Field(default={})

    @model_validator(mode="before")
    @classmethod
    def _of_entries(cls, document: Any) -> Any:
        return expand_entries(document) if isinstance(document, dict) and "each" in document else document

    @model_validator(mode="after")
    def _complete(self) -> Validation:
        if (self.path is None) == (self.paths is None):
            raise ValueError("a validation requires either path (constant) or paths (CEL)")
        named, given = set(_PLACEHOLDER.findall(self.message)), set(self.values)
        if named != given:
            raise ValueError(f"the message names {sorted(named)} but values has {sorted(given)}")
        return self


class UncheckedFields(SettingsModel):
    """Limitation of a gate, and the gate that covers it."""

    gate: EnforcementPoint
    what: str = Field(description="What the gate cannot evaluate, and why")
    covered: str = Field(description="Which gate evaluates it instead")


class Fragment(SettingsModel):
    """CEL variables shared by rules: one file of ``policies/lib``."""

    about: str
    variables: tuple[Expression, ...]


class Cel(SettingsModel):
    """CEL implementation of a rule."""

    use: tuple[str, ...] = Field(default=(), description="Fragments of policies/lib, in order")
    before: bool = Field(
        default=False,
        description="Whether variables of the fragments exist for the old object of an update too (beforeX)",
    )
    variables: tuple[Expression, ...] = ()
    when: tuple[Expression, ...] = Field(default=(), description="Conditions under which the rule is evaluated")
    unchanged: bool = Field(
        default=False, description="Whether to evaluate updates that change neither spec nor labels nor annotations"
    )
    stopping: bool = Field(default=False, description="Whether to evaluate updates that leave the object suspended")
    deleting: bool = Field(
        default=False,
        description="Whether to evaluate updates that only remove finalizers and owners of an object in deletion",
    )
    validations: tuple[Validation, ...] = Field(min_length=1)

    @property
    def texts(self) -> list[str]:
        """All expressions of the rule."""
        named = [each.expression for each in (*self.variables, *self.when)]
        return named + [
            text for each in self.validations for text in (each.expression, each.paths or "", *each.values.values())
        ]


class AdmissionRule(SettingsModel):
    """One admission rule: the content of ``rule.yaml`` and the family of its folder."""

    id: RuleId
    family: str
    slug: str
    title: str
    description: str
    severity: Severity
    state: PolicyState = Field(description="Effect of a violation, unless the stack sets another state")
    since: str
    gate: EnforcementPoint = EnforcementPoint.ADMISSION
    sees: RuleInput = RuleInput.REQUEST
    audited: bool = Field(
        default=True,
        description="Whether existing objects can be audited; false if the rule depends on the requesting user",
    )
    unseen: tuple[UncheckedFields, ...] = ()
    reach: Reach
    matches: tuple[Match, ...] = Field(min_length=1)
    source: ParameterSource = ParameterSource.NONE
    parameters: dict[Name, ParameterSchema] = Field(default={})
    fix: str
    references: tuple[str, ...] = ()
    texts: RequiredTexts | None = Field(
        default=None, description="Of these, each violating request contains one; unset: the rule is always evaluated"
    )
    forbidden: tuple[ForbiddenFields, ...] = Field(
        default=(), description="Table from which the CEL and the Rego of the rule are generated"
    )
    cel: Cel | None = None

    @model_validator(mode="before")
    @classmethod
    def _generated(cls, document: Any) -> Any:
        if not isinstance(document, dict) or not document.get("forbidden"):
            return document
        if document.get("cel"):
            raise ValueError("a rule has either forbidden or cel: the table generates the CEL")
        entries = TypeAdapter(tuple[ForbiddenFields, ...]).validate_python(document["forbidden"])
        return {**document, "cel": cel_of(entries)}

    @model_validator(mode="after")
    def _consistent(self) -> AdmissionRule:
        if (self.gate is EnforcementPoint.ADMISSION) != (self.cel is not None):
            raise ValueError(
                "a rule of gate admission requires cel; one of gate crd must not have it, because the CRD contains it"
            )
        if self.gate is EnforcementPoint.OPA and not self.unseen:
            raise ValueError("a rule of gate opa must explain under unseen why the API server cannot evaluate it")
        if self.sees is not RuleInput.REQUEST and self.gate is not EnforcementPoint.OPA:
            raise ValueError(
                "a policy of the API server sees only the request: a rule that sees more requires gate opa"
            )
        if self.source is ParameterSource.TENANT_POLICY and any(match.scope == "Cluster" for match in self.matches):
            raise ValueError("a TenantPolicy is namespaced: a rule that reads it cannot match kinds of scope Cluster")
        if self.reach is Reach.LABELLED and self.source is not ParameterSource.NONE:
            raise ValueError(
                "a rule of reach labelled cannot read a parameter object: the label already selects its namespaces"
            )
        if self.source is not ParameterSource.NONE and any("DELETE" in match.operations for match in self.matches):
            raise ValueError(
                "a rule that reads parameters cannot match DELETE: a missing object would block namespace deletion"
            )
        if self.cel is not None and any(map(_PARAMS.search, self.cel.texts)):
            raise ValueError(
                "cel: policies have no params; use the variables of policies/lib/tenant-policy.cel.yaml or "
                "platform.cel.yaml, which are included by the rule's source"
            )
        for name, schema in self.parameters.items():
            if error := parameter_error(schema, schema.default):
                raise ValueError(f"parameters.{name}.default: {error}")
        return self

    def parameter_values(self, overrides: dict[str, object]) -> dict[str, ParameterValue]:
        """Return the rule's parameters: its defaults with the overrides of a stack.

        Raises
        ------
        ValueError
            A name is unknown or a value is invalid.
        """
        if unknown := sorted(set(overrides) - set(self.parameters)):
            raise ValueError(f"unknown parameter {unknown[0]!r}; {self.id} has {', '.join(self.parameters) or 'none'}")
        values: dict[str, ParameterValue] = {}
        for name, schema in self.parameters.items():
            value = overrides.get(name, schema.default)
            if error := parameter_error(schema, value):
                raise ValueError(f"{name}: {error}")
            values[name] = list(value) if isinstance(value, list | tuple) else value  # type: ignore[assignment]
        return values
