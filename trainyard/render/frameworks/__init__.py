"""Frameworks: what each one puts into the training pods. A new one is a module here and a line in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.api import MLPolicy, Runtime
from trainyard.render.frameworks.base import Framework
from trainyard.render.frameworks.flux import Flux
from trainyard.render.frameworks.horovod import Horovod
from trainyard.render.frameworks.jax import Jax
from trainyard.render.frameworks.mpi import Mpi
from trainyard.render.frameworks.paddle import Paddle
from trainyard.render.frameworks.plain import Plain
from trainyard.render.frameworks.ray import Ray
from trainyard.render.frameworks.tensorflow import Tensorflow
from trainyard.render.frameworks.torch import Torch
from trainyard.render.frameworks.xgboost import Xgboost

__all__ = ["FRAMEWORKS", "PLAIN", "Framework", "chosen", "key_kind"]

PLAIN: Final = "plain"
"""The framework of a runtime whose mlPolicy names none."""

FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "torch": Torch(),
    "mpi": Mpi(),
    "horovod": Horovod(),
    "jax": Jax(),
    "xgboost": Xgboost(),
    "tensorflow": Tensorflow(),
    "paddle": Paddle(),
    "ray": Ray(),
    "flux": Flux(),
    PLAIN: Plain(),
}
"""Frameworks by the name of their field in mlPolicy, in the order in which they are listed to users."""


def chosen(policy: MLPolicy) -> tuple[str, ...]:
    """Return the names of the frameworks a policy names; more than one is a mistake."""
    sources = (field.alias or name for name, field in type(policy).model_fields.items() if name != "num_nodes")
    known = [name for name in sources if getattr(policy, name) is not None]
    return tuple(known) or (PLAIN,)


def key_kind(runtime: Runtime) -> str | None:
    """Return which kind of keys a job of a runtime has in its Secret; None where it has no Secret."""
    policy = (runtime.spec.ml_policy if runtime.spec else None) or MLPolicy()
    return FRAMEWORKS[chosen(policy)[0]].keys
