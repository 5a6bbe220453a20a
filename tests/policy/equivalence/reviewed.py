"""What the API server said about a subject."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.policy.equivalence.generator import Subject

Finding = tuple[str, str]
"""Id of a rule, and the field path in the reviewed object."""


@dataclass
class Reviewed:
    """What the API server said about a subject.

    Parameters
    ----------
    subject, namespace, name
        The subject, and where it was put.
    error
        Why the request could not be made; empty else.
    refused
        What refused it before any policy was asked; empty else.
    sent, body, before
        The object as it was sent, as the policies saw it, and the one before it.
    findings
        Every violation.
    unevaluated
        Expressions that could not be evaluated.
    allowed
        Whether the request is granted.
    denial
        Id and paths of the violation that the denial names.
    warned
        Violations that the answer warns of.
    complete
        Whether the API server could say everything it wanted.
    shape_rules
        Ids of the rules that a CustomResourceDefinition refuses it by.
    """

    subject: Subject
    namespace: str
    name: str
    error: str = ""
    refused: str = ""
    sent: dict[str, Any] | None = None
    body: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    findings: frozenset[Finding] = frozenset()
    unevaluated: list[str] = field(default_factory=list)
    allowed: bool = True
    denial: tuple[str, frozenset[str]] | None = None
    warned: frozenset[Finding] = frozenset()
    complete: bool = True
    shape_rules: frozenset[str] = frozenset()
