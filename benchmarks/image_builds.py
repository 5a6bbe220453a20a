"""Size of each image, and the processor time of its build relative to that of the policy server's.

Builds every image without the cache of layers (downloaded packages are kept) and once more unchanged, prints the table
of docs/images.md, and writes `benchmarks/results/image-builds.json`. Requires the programs of `trainyard cluster
toolchain`.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.recording import save
from trainyard.local.cluster.image_sources import image_builder
from trainyard.local.images.image_build import ImageBuilder

_BASE = "opa"


def main() -> None:
    """Measure and print."""
    known = image_builder(build=False)
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in known.recipes:
            cache = Path(temporary) / name
            for downloads in ("debian", "wheels"):
                if (known.sources.cache / downloads).is_dir():
                    shutil.copytree(known.sources.cache / downloads, cache / downloads)
            found[name] = _measured(known, cache, name)
    base = found[_BASE]["seconds"]
    rows = {
        name: {
            "compressed MB": round(each["compressed"] / 1e6, 1),
            "unpacked MB": round(each["unpacked"] / 1e6, 1),
            "build": round(each["seconds"] / base, 2),
            "unchanged": round(each["unchanged"] / base, 2),
        }
        for name, each in found.items()
    }
    save("image-builds", rows)
    print(f"| image | compressed, MB | unpacked, MB | processor time, relative to `{_BASE}` | unchanged |")
    print("|---|---|---|---|---|")
    for name, row in rows.items():
        print(f"| `{name}` | {' | '.join(str(value) for value in row.values())} |")


def _measured(known: ImageBuilder, cache: Path, name: str) -> dict[str, float]:
    def build() -> float:
        sources = replace(known.sources, cache=cache)
        started = _processor_seconds()
        ImageBuilder(known.recipes, sources, cache / "out").build([name])
        return _processor_seconds() - started

    seconds, unchanged = build(), build()
    (image,) = ImageBuilder(known.recipes, replace(known.sources, cache=cache), cache / "out").images([name])
    return {
        "compressed": image.size or 0,
        "unpacked": image.unpacked_size,
        "seconds": seconds,
        "unchanged": unchanged,
    }


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
