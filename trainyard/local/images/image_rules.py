"""Rules of an image: no shell without a reason, every library, an entrypoint that exists."""

from __future__ import annotations

from typing import Final

from trainyard.errors import TrainyardError
from trainyard.local.images.elf_libraries import missing_libraries
from trainyard.local.images.file_tree import FileTree
from trainyard.local.images.recipe import Recipe

_SHELLS: Final = tuple(
    f"{folder}/{name}" for folder in ("bin", "usr/bin") for name in ("sh", "bash", "dash", "busybox")
)


def require_rules(recipe: Recipe, tree: FileTree) -> None:
    """Raise unless an image is complete and follows the rules, or its recipe gives a reason.

    Raises
    ------
    TrainyardError
        Names what is at fault.
    """
    faults = []
    shells = [path for path in _SHELLS if path in tree]
    if bool(shells) != ("shell" in recipe.exceptions):
        faults.append(
            f"it contains {shells[0]}, and exceptions.shell gives no reason"
            if shells
            else "exceptions.shell gives a reason, but it contains no shell"
        )
    for path, names in sorted(missing_libraries(tree).items()):
        faults.append(f"/{path} needs {', '.join(names)}")
    if tree.resolve(recipe.entrypoint[0].lstrip("/")) is None and recipe.entrypoint[0].startswith("/"):
        faults.append(f"its entrypoint {recipe.entrypoint[0]} does not exist")
    if faults:
        raise TrainyardError(
            f"The image {recipe.name} is not complete: {'; '.join(faults[:5])}",
            fix=f"correct images/{recipe.name}.yaml",
        )
