"""What an entry of the list of deliberate differences is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.compatibility.compared_case import Scene
from trainyard.checks.finding import Finding


@dataclass(frozen=True)
class Difference:
    """Something that Trainyard deliberately does in another way than Kubeflow Trainer v2.3.0.

    Parameters
    ----------
    identifier
        Short name.
    subject
        What it is about.
    upstream, ours, reason
        The columns of the page.
    update, runtime_update
        Tell whether it explains that a change of the TrainJob (by its number) or of the runtime is decided differently.
    incomparable
        Tells of two sets of objects that they cannot be made the same.
    objects
        Changes upstream's objects of a scene into what we render; where it changes nothing it does not apply.
    finding
        Tells whether it explains one of our errors where upstream accepts the object; every error needs a row.
    verdict
        Tells whether it explains why the two outcomes, or the field paths of two refusals, are not the same.
    """

    identifier: str
    subject: str
    upstream: str
    ours: str
    reason: str
    objects: Callable[[Scene], None] | None = None
    finding: Callable[[Scene, Finding], bool] | None = None
    verdict: Callable[[Scene], bool] | None = None
    incomparable: Callable[[Scene], bool] | None = None
    update: Callable[[Scene, int], bool] | None = None
    runtime_update: Callable[[Scene], bool] | None = None
