"""Owner of the objects of one stack, which the label `trainyard.dev/stack` names."""

from __future__ import annotations

import hashlib
from typing import Final

_PROJECT: Final = "trainyard"
_LONGEST: Final = 63
"""Characters of a label value."""
_DIGEST: Final = 10


def owner_of(project: str, stack: str) -> str:
    """Return the value of the label for a stack of a project.

    Stack names are unique in a project only, so two programs on one cluster may both have a stack ``prod``. The stacks
    of this project keep their plain name, which existing objects carry. A name that is too long for a label, or that
    does not tell where the project ends, gets a digest.
    """
    if project == _PROJECT:
        return stack
    owner = f"{project}.{stack}"
    if len(owner) <= _LONGEST and owner.count(".") == 1 and owner[0].isalnum() and owner[-1].isalnum():
        return owner
    digest = hashlib.sha256(f"{project}/{stack}".encode()).hexdigest()[:_DIGEST]
    return f"{owner.strip('._-')[: _LONGEST - _DIGEST - 1]}-{digest}"
