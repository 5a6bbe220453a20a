"""Frameworks: environment of the training pods. Each framework is one module with a ``FRAMEWORK``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.api import MLPolicy, Runtime
from trainyard.discovery import plugins_of
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.plain import Plain

PLAIN: Final = "plain"
"""Framework of a runtime whose mlPolicy sets none."""

DECLARED: Final[Mapping[str, Framework[Any]]] = plugins_of(__name__, __path__, "FRAMEWORK", Framework)
"""Frameworks by the name of their field in mlPolicy, in the order of these fields."""

FRAMEWORKS: Final[Mapping[str, Framework[Any]]] = {**DECLARED, PLAIN: Plain()}
"""All frameworks by name, including `PLAIN`."""


def chosen(policy: MLPolicy) -> tuple[str, ...]:
    """Return the names of the frameworks that a policy sets; more than one is invalid."""
    return policy.chosen() or (PLAIN,)


def frameworks_of(runtime: Runtime) -> tuple[Framework[Any], ...]:
    """Return the frameworks that a runtime sets; more than one is invalid."""
    policy = runtime.spec.ml_policy if runtime.spec else None
    return tuple(FRAMEWORKS[name] for name in (chosen(policy) if policy else (PLAIN,)))


def framework_of(runtime: Runtime) -> Framework[Any]:
    """Return the framework of a valid runtime."""
    return frameworks_of(runtime)[0]


def key_kind(runtime: Runtime) -> str | None:
    """Return the kind of keys in the generated Secret of a runtime's TrainJobs, or None for no Secret."""
    return framework_of(runtime).keys


def child_suffixes(kind: str) -> tuple[str, ...]:
    """Return the suffixes of the names that frameworks give their objects of a kind (ConfigMap or Secret)."""
    return tuple(dict.fromkeys(name for framework in DECLARED.values() for name in framework.children.get(kind, ())))
