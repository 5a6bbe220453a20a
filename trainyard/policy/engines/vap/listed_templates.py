"""CEL of the pod templates of the kinds that a stack lists: placeholders of policies/lib, generated from their paths.

``{listed.pods}`` are further entries of ``everyPod`` and ``{listed.metadata}`` of ``everyMetadata``;
``{listed.continued}`` is a further condition of ``continued``. All are empty without such kinds.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainyard.policy.rules.admission_rule import Match
from trainyard.policy.rules.parameters import cel_literal
from trainyard.settings.platform import PodTemplateSettings

_SUBJECT = "variables.subject"


def fill_listed(text: str, matches: Iterable[Match]) -> str:
    """Return an expression with the placeholders of listed kinds filled.

    Parameters
    ----------
    text
        The expression.
    matches
        Kinds that the rule evaluates.
    """
    if "{listed." not in text:
        return text
    listed = [match for match in matches if match.templates]
    pods = "".join(_entries(match, each, "spec") for match in listed for each in match.templates)
    metadata = "".join(
        _entries(match, each, "metadata")
        for match in listed
        for each in match.templates
        if each.path != "spec.template"  # everyMetadata has this path of every kind
    )
    continued = "".join(f" || ({_continued(match)})" for match in listed)
    return (
        text.replace("{listed.pods}", pods)
        .replace("{listed.metadata}", metadata)
        .replace("{listed.continued}", continued)
    )


def _entries(match: Match, template: PodTemplateSettings, part: str) -> str:
    """Return the entries of the template's ``spec`` or ``metadata``, to be added to a list."""
    listed, dot, rest = template.path.rpartition("[].")
    root, steps = "item" if dot else _SUBJECT, rest.split(".")
    path = f'"{listed}[" + string(i) + "].{rest}.{part}"' if dot else cel_literal(f"{rest}.{part}")
    entry = f'"path": dyn({path}), "{part}": {_optional(root, [*steps, part])}.orValue(dyn({{}}))'
    condition = f'{_SUBJECT}.apiVersion.startsWith("{match.group}/") && {_SUBJECT}.kind == "{match.kind}"'
    if part == "spec":
        beside = _optional(root, [*steps[:-1], template.replicas])
        entry += f', "copies": {beside}.orValue(dyn(1))' if template.replicas else ', "copies": dyn(1)'
        condition += " && !variables.continued"
    entries = f"[{{{entry}}}]"
    if dot:
        entries = f"{_optional(_SUBJECT, listed.split('.'))}.orValue([]).transformList(i, item, {{{entry}}})"
    return f" + ({condition} ? {entries} : [])"


def _continued(match: Match) -> str:
    """Return whether an update neither changes a template, nor adds replicas, nor resumes the object."""
    new, old = "dyn(object)", "dyn(oldObject)"
    conditions = [
        'request.operation == "UPDATE"',
        f'request.kind.group == "{match.group}" && request.kind.kind == "{match.kind}"',
        f"({new}.?spec.?suspend.orValue(dyn(false)) == true || {old}.?spec.?suspend.orValue(dyn(false)) != true)",
    ]
    for template in match.templates:
        found, dot, rest = template.path.rpartition("[].")
        steps = (found if dot else rest).split(".")
        conditions.append(f"{_optional(new, steps)} == {_optional(old, steps)}")
        if template.replicas and not dot:
            beside = [*steps[:-1], template.replicas]
            conditions.append(f"{_optional(new, beside)}.orValue(dyn(1)) <= {_optional(old, beside)}.orValue(dyn(1))")
    return " && ".join(conditions)


def _optional(subject: str, steps: Iterable[str | None]) -> str:
    return subject + "".join(f".?{step}" for step in steps)
