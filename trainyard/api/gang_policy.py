"""Gang policies: the gang scheduler of a TrainJob and its parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from trainyard.api.extensions import ExtensiblePolicy, model_of
from trainyard.api.shape_rule import ShapeRule, exclusive


class PodGroupPolicy(ExtensiblePolicy):
    """The gang scheduler."""

    registry: ClassVar[str] = "trainyard.jobs.render.gangs:GANGS"

    @classmethod
    def exclusive(cls, names: tuple[str, ...]) -> ShapeRule:
        """Return PGP-001: two schedulers cannot place one gang."""
        return exclusive(
            names,
            f"Only one gang scheduler can be configured: {', '.join(names)}",
            id="PGP-001",
            fix="keep one entry in spec.podGroupPolicy: two schedulers cannot place one gang",
        )


def __getattr__(name: str) -> Any:
    """Return the model of a gang scheduler, which its plug-in declares."""
    return model_of(PodGroupPolicy, name)
