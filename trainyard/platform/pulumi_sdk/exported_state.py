"""The state of a run of plain `pulumi`, which the program reads on request; the engine does not show it."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache

from trainyard.errors import TrainyardError

IMPORT_VARIABLE = "TRAINYARD_IMPORT"
"""Set to ``true``, the program imports objects of the stack that exist and that its state lacks."""


def exported_objects() -> frozenset[tuple[str, str]] | None:
    """Return type and name of each resource in the state; None unless `IMPORT_VARIABLE` is set.

    Raises
    ------
    TrainyardError
        The state cannot be read.
    """
    if os.environ.get(IMPORT_VARIABLE, "") in ("", "false"):
        return None
    import pulumi

    organization = pulumi.get_organization() or "organization"
    return _exported(f"{organization}/{pulumi.get_project()}/{pulumi.get_stack()}")


@cache
def _exported(stack: str) -> frozenset[tuple[str, str]]:
    # An export takes no lock; the run itself holds it.
    command = ["pulumi", "stack", "export", "--non-interactive", "--stack", stack]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        resources = (json.loads(done.stdout).get("deployment") or {}).get("resources") or ()
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        said = " ".join((getattr(error, "stderr", None) or str(error)).split())
        raise TrainyardError(
            f"{IMPORT_VARIABLE} is set, but the state cannot be read: {said}",
            fix="put the `pulumi` of this run on PATH, or unset it",
        ) from error
    return frozenset((each["type"], each["urn"].rpartition("::")[2]) for each in resources if not each.get("delete"))
