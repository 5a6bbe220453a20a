"""Regenerate components/upstream.lock: ``make upstream-lock``. Review the diff."""

from __future__ import annotations

from components.registry import declarations
from trainyard import upstream
from trainyard.settings.versions import supported_versions


def main() -> None:
    """Lock the upstream files of every tested version."""
    manifests = {name: each.manifests for name, each in declarations().items() if each.manifests}
    paths = {(name, version): files for name, files in manifests.items() for version in supported_versions(name)}
    print(f"Locked {sum(len(list(files)) for files in paths.values())} files in {upstream.record(paths)}")


if __name__ == "__main__":
    main()
