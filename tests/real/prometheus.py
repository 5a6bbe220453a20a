"""Debian's Prometheus, which scrapes in the network of a pod."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tests.support import LiveCluster, require
from trainyard.local.cluster.folders import cache_home
from trainyard.local.images.debian_packages import DebianPackage, debian_files, fetch

_PACKAGE = DebianPackage(
    "prometheus", "2.42.0+ds-5+deb12u1", "amd64", "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"
)
_PORT = 9090


def fetched() -> Path:
    """Return the package, after downloading it if it is not in the cache.

    Raises
    ------
    TrainyardError
        It cannot be downloaded.
    """
    return fetch([_PACKAGE], cache_home() / "images" / "debian")[_PACKAGE.name]


def _process_in(pod: Mapping[str, Any]) -> int:
    """Return the id of a process of a pod; all have the network of the pod."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if f"pod{pod['metadata']['uid']}" in (folder / "cgroup").read_text():
                    return int(folder.name)
            except OSError:
                continue
    raise AssertionError(f"no process of pod {pod['metadata']['name']}")


@contextmanager
def prometheus(folder: Path, pod: Mapping[str, Any], scrapes: list[dict[str, Any]]) -> Iterator[None]:
    """Run Prometheus in the network of a pod until the block ends.

    Parameters
    ----------
    folder
        Folder of its files.
    pod
        The pod.
    scrapes
        Its ``scrape_configs``.
    """
    program = folder / "prometheus"
    program.write_bytes(debian_files(fetched())["usr/bin/prometheus"].read())
    program.chmod(0o755)
    configuration = folder / "prometheus.yaml"
    document = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": scrapes}
    configuration.write_text(yaml.safe_dump(document))
    command = [
        *("nsenter", f"--target={_process_in(pod)}", "--net", str(program), f"--config.file={configuration}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=0.0.0.0:{_PORT}", "--log.level=warn"),
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()


def query(cluster: LiveCluster, pod: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    """Return the series of a query, asked through the API server's proxy of pods."""
    answer = json.loads(require(cluster.kubectl("get", "--raw", f"{_proxy(pod)}/api/v1/query?query={quote(text)}")))
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def is_ready(cluster: LiveCluster, pod: Mapping[str, Any]) -> bool:
    """Return whether Prometheus answers queries."""
    return cluster.kubectl("get", "--raw", f"{_proxy(pod)}/-/ready").returncode == 0


def _proxy(pod: Mapping[str, Any]) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}:{_PORT}/proxy"
