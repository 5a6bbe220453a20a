"""Machine learning policies: framework and number of nodes of a runtime."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from trainyard.api.extensions import ExtensiblePolicy, model_of
from trainyard.api.kubernetes_model import Int32
from trainyard.api.shape_rule import ShapeRule, exclusive


class MLPolicy(ExtensiblePolicy):
    """Framework and number of nodes."""

    registry: ClassVar[str] = "trainyard.jobs.render.frameworks:DECLARED"

    num_nodes: Annotated[Int32, Field(ge=1)] | None = None
    """Number of training nodes, unless the TrainJob sets it; default: 1."""

    @classmethod
    def exclusive(cls, names: tuple[str, ...]) -> ShapeRule:
        """Return MLP-001: a runtime has one framework."""
        return exclusive(
            names,
            f"Only one of the policy can be configured: {', '.join(names)}",
            id="MLP-001",
            fix="keep one framework in spec.mlPolicy, and create a second runtime for the other",
        )


def __getattr__(name: str) -> Any:
    """Return the model of a framework, which its plug-in declares."""
    return model_of(MLPolicy, name)
