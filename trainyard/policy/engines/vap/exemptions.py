"""Exemptions as match conditions of ValidatingAdmissionPolicies, which end by the clock of the API server.

CEL has no clock in admission. The API server sets the creation time of a new object, whatever the client sends
(`rest.FillObjectMetaSystemFields`), and in an update the time of the managed fields that the request adds or changes. A
client may remove these entries or give others a time, but cannot hide its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from trainyard.policy.rules.parameters import cel_literal
from trainyard.settings.platform import ExemptionSettings

_FIELDS = "dyn(object).metadata.?managedFields.orValue([])"


def exemption_conditions(
    exemptions: Iterable[ExemptionSettings], rule: str, today: datetime.date | None
) -> list[dict[str, str]]:
    """Return a match condition for each exemption from a rule that has not expired.

    Parameters
    ----------
    exemptions
        The exemptions of a stack.
    rule
        Id of the rule.
    today
        The current day (UTC); if unset, no exemption applies.
    """
    holding = [each for each in exemptions if each.rule == rule and today is not None and today < each.expires]
    conditions = []
    for number, exemption in enumerate(holding):
        terms = [f'request.?namespace.orValue("") == {cel_literal(exemption.namespace)}']
        if exemption.kind is not None:
            terms.append(f"request.kind.kind == {cel_literal(exemption.kind)}")
        if exemption.api_group is not None:
            terms.append(f"request.kind.group == {cel_literal(exemption.api_group)}")
        if exemption.name is not None:
            terms.append(f'request.?name.orValue("") == {cel_literal(exemption.name)}')
        terms.append(_before(exemption.expires))
        conditions.append({"name": f"exemption-{number}", "expression": f"!({' && '.join(terms)})"})
    return conditions


def _before(day: datetime.date) -> str:
    """Return an expression of whether a request is made before a day (UTC).

    It is false where the request has no time: deletions, evictions, and updates of objects without managed fields. The
    API server builds the Scale of an update of `scale` without managed fields: such an exemption ends with the policy.
    """
    limit = f'timestamp("{day.isoformat()}T00:00:00Z")'
    created = (
        "dyn(object).metadata.?creationTimestamp.orValue(null) != null && "
        f"timestamp(dyn(object).metadata.creationTimestamp) < {limit}"
    )
    updated = (
        f"{_FIELDS}.exists(entry, has(entry.time)) && "
        f"{_FIELDS}.all(entry, !has(entry.time) || timestamp(entry.time) < {limit})"
    )
    scaled = 'request.?subResource.orValue("") == "scale"'
    return f'(request.operation == "CREATE" ? {created} : request.operation == "UPDATE" && ({scaled} || {updated}))'
