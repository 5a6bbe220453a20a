"""Regenerate images/debian.lock: ``make images-lock``. Review the diff."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, Final

from trainyard.data import project_root
from trainyard.local.images.debian_packages import LOCK, RELOCK
from trainyard.local.images.recipe import read_recipes
from trainyard.manifests.loader import load

_HEADING: Final = "# Debian packages of the images, by architecture. Written by `make images-lock`.\n"


def main() -> None:
    """Write the lock for this machine's architecture, from the package index of its apt."""
    folder = project_root() / "images"
    names = sorted(
        {name for recipe in read_recipes(folder).values() for layer in recipe.layers for name in layer.debian}
    )
    command = ["apt-cache", "show", "--no-all-versions", *names]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    file = folder / LOCK
    document: Any = (load(file.read_text(), str(file), fix=RELOCK) if file.is_file() else None) or {}
    document[architecture] = {}
    for paragraph in listing.split("\n\n"):
        fields = dict(re.findall(r"(?m)^(Package|Version|Architecture|SHA256): (.+)$", paragraph))
        if fields:
            document[architecture][fields["Package"]] = {
                "version": fields["Version"],
                "architecture": fields["Architecture"],
                "sha256": fields["SHA256"],
            }
    if missing := sorted(set(names) - set(document[architecture])):
        sys.exit(f"apt does not have {', '.join(missing)}")
    lines = [_HEADING]
    for each in sorted(document):
        lines.append(f"{each}:\n")
        for name, entry in sorted(document[each].items()):
            lines.append(f"  {name}:\n")
            lines += [f'    {key}: "{entry[key]}"\n' for key in ("version", "architecture", "sha256")]
    file.write_text("".join(lines))


if __name__ == "__main__":
    main()
