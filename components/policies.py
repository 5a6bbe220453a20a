"""Admission policies: each rule as a ValidatingAdmissionPolicy with its bindings."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

import pulumi

from trainyard.policy.check.report_kinds import report_definitions
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.rules.listed_controllers import with_listed_controllers
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import policy_settings, rule_catalogs
from trainyard.settings.stack import StackSettings

from .common.declaration import Declaration, Group, Resources
from .common.installation import Installation
from .common.objects import Component, KubernetesObject

__all__ = ["COMPONENT", "Policies", "PoliciesArgs"]


@dataclass(frozen=True)
class PoliciesArgs:
    """Arguments of the Policies component: the settings of the stack."""

    settings: StackSettings


class Policies(Component):
    """The admission policies of a stack.

    Policies and bindings inherit ``opts.depends_on``: the Platform that the rules read, and the controllers whose
    objects they review.

    Attributes
    ----------
    ready
        Every policy and binding; not the CustomResourceDefinitions of reports, on which nothing depends.
    """

    def __init__(self, name: str, args: PoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("policies", name, opts)
        settings = args.settings
        if settings.policies.reports:
            for definition in report_definitions():
                self.child(definition)
        policies: dict[str, KubernetesObject] = {}
        today = datetime.datetime.now(datetime.UTC).date()
        exempt = settings.exempt_namespaces
        rules = with_listed_controllers(load_rules(*rule_catalogs(settings)), settings.policies.pod_controllers)
        for manifest in admission_objects(rules, policy_settings(settings, rules), exempt, today=today):
            policy = policies.get(manifest["spec"].get("policyName", ""))
            declared = self.child(manifest, depends_on=[policy] if policy else [], inherit_depends_on=True)
            if manifest["kind"] == "ValidatingAdmissionPolicy":
                policies[manifest["metadata"]["name"]] = declared
            self.ready.append(declared)
        self.register_outputs({})


def _install(context: Installation, needed: Resources) -> Policies:
    return Policies("policies", PoliciesArgs(context.settings), context.options_after(*needed.ready))


COMPONENT: Final = Declaration(
    name="policies",
    order=50,
    install=_install,
    needs=("platform",),
    needs_all=Group.CONTROLLERS,
)
