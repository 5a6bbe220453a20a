"""Table of images."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.local.images.built_image import BuiltImage


def image_table(images: Sequence[BuiltImage]) -> str:
    """Return images with reference, digest, size, state, user and exceptions as text."""
    rows = [("image", "reference", "digest", "size", "state", "user", "exceptions")]
    rows += [
        (
            image.name,
            image.reference,
            (image.digest or "")[:19],
            f"{image.size / 1e6:.1f} MB" if image.size is not None else "",
            image.state,
            str(image.user),
            "; ".join(f"{rule}: {reason}" for rule, reason in image.exceptions.items()),
        )
        for image in images
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
