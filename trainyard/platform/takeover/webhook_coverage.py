"""Webhooks of an installation by others, compared with those of the component: what they do not review.

A webhook that exists need not see an object: its rules name operations, its selectors and conditions leave objects out,
and with failurePolicy Ignore the API server stores what it could not send.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_VALIDATING = "ValidatingWebhookConfiguration"
_ALL = "*"


@dataclass(frozen=True)
class _Request:
    """A request that a webhook of the component receives."""

    configuration: str
    group: str
    plural: str
    operation: str

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}".rstrip(".")


def webhook_gaps(
    expected: Iterable[Mapping[str, Any]],
    live: Iterable[Mapping[str, Any]],
    namespace: str,
    tenants: Collection[Mapping[str, str]],
) -> list[str]:
    """Return what the webhooks that are served in a namespace do not review or change, or not for certain.

    Parameters
    ----------
    expected
        Webhook configurations of the component.
    live
        Webhook configurations of the cluster.
    namespace
        Namespace of the installation.
    tenants
        Labels of each tenant's namespace, as far as they are known.
    """
    served = [
        (configuration["kind"], webhook)
        for configuration in live
        for webhook in configuration.get("webhooks") or ()
        if ((webhook.get("clientConfig") or {}).get("service") or {}).get("namespace") == namespace
    ]
    missing: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    limited: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    known = set[tuple[str, str]]()
    for request, wanted in _requests(expected):
        found = [
            (webhook, rule)
            for kind, webhook in served
            if kind == request.configuration
            for rule in webhook.get("rules") or ()
        ]
        known |= {(request.configuration, request.resource) for _, rule in found if _names(rule, request)}
        matching = [(webhook, rule) for webhook, rule in found if _receives(rule, request)]
        limits = [(list(_limits(webhook, rule, wanted, tenants)), webhook["name"]) for webhook, rule in matching]
        if not limits:
            missing[request.configuration, request.resource].append(request.operation)
        elif least := min(limits)[0]:
            limited[request.configuration, min(limits)[1], ", ".join(least)].append(request.resource)
    return [*_missing(missing, known, namespace), *_limited(limited)]


def _requests(configurations: Iterable[Mapping[str, Any]]) -> Iterator[tuple[_Request, Mapping[str, Any]]]:
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            for rule in webhook.get("rules") or ():
                for group in rule["apiGroups"]:
                    for plural in rule["resources"]:
                        for operation in rule["operations"]:
                            yield _Request(configuration["kind"], group, plural, operation), webhook


def _names(rule: Mapping[str, Any], request: _Request) -> bool:
    groups, plurals = rule.get("apiGroups") or (), set(rule.get("resources") or ())
    _, _, subresource = request.plural.partition("/")
    every = {f"*/{subresource}", "*/*"} if subresource else {_ALL, "*/*"}
    return (request.group in groups or _ALL in groups) and bool(plurals & {request.plural, *every})


def _receives(rule: Mapping[str, Any], request: _Request) -> bool:
    operations = rule.get("operations") or ()
    return _names(rule, request) and (request.operation in operations or _ALL in operations)


def _limits(
    webhook: Mapping[str, Any],
    rule: Mapping[str, Any],
    wanted: Mapping[str, Any],
    tenants: Collection[Mapping[str, str]],
) -> Iterator[str]:
    """Yield the fields because of which objects of tenants may not be sent to a webhook."""
    if webhook.get("failurePolicy") == "Ignore" and wanted.get("failurePolicy") != "Ignore":
        yield "failurePolicy: Ignore"
    if not all(_selects(webhook.get("namespaceSelector") or {}, labels) for labels in tenants):
        yield "namespaceSelector"
    if (selector := webhook.get("objectSelector") or {}) and selector != wanted.get("objectSelector"):
        yield "objectSelector"
    if (conditions := webhook.get("matchConditions") or []) and conditions != wanted.get("matchConditions"):
        yield "matchConditions"
    if rule.get("scope", _ALL) != _ALL:
        yield "scope"


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector surely selects a namespace, of which other labels are unknown."""
    exact = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return exact and all(_holds(each, labels.get(each["key"])) for each in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], value: str | None) -> bool:
    values = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value is not None and value not in values
        case "Exists":
            return value is not None
    return False


def _missing(
    missing: Mapping[tuple[str, str], Sequence[str]], known: Collection[tuple[str, str]], namespace: str
) -> Iterator[str]:
    for configuration in sorted({kind for kind, _ in missing}, reverse=True):
        texts = sorted(
            f"{resource} ({', '.join(sorted(set(operations)))})" if (kind, resource) in known else resource
            for (kind, resource), operations in missing.items()
            if kind == configuration
        )
        verb, effect = "reviews", "invalid ones are stored"
        if configuration != _VALIDATING:
            verb, effect = "sets defaults of", "they are stored as they are sent"
        yield f"no webhook in namespace {namespace} {verb} {', '.join(texts)}: {effect}"


def _limited(limited: Mapping[tuple[str, str, str], Sequence[str]]) -> Iterator[str]:
    for (_, name, limits), resources in sorted(limited.items()):
        yield (
            f"webhook {name} may not receive every one of {', '.join(sorted(set(resources)))}, because of {limits}: "
            "not verified"
        )
