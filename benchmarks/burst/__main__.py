"""A burst of TrainJobs: Trainyard's controller, upstream's as shipped and unthrottled, and a client that only writes.

Each runs on a fresh control plane of the same kind, one after the other. Prints one line a contender, then ratios of
Trainyard to each other. The controllers log errors only.

    python -m benchmarks.burst [--jobs 1000] [--without shipped]
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.burst.measure import contend
from benchmarks.recording import publish
from trainyard import pki
from trainyard.local.cluster.toolchain import program_path

_COMPARED = ("seconds", "cpu_seconds", "resident_mib")
_OTHERS = ("floor", "raised", "shipped")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--without", choices=_OTHERS, action="append", default=[], help="leave a contender out")
    options = parser.parse_args()
    python = [sys.executable, "-m"]
    run = [
        "trainyard",
        "controller",
        "run",
        "--no-webhooks",
        "--health-port",
        "0",
        "--metrics-port",
        "0",
        "--log-level",
        "error",
    ]
    results: dict[str, Any] = {
        "trainyard": contend("trainyard", [*python, *run, "--kubeconfig", "{kubeconfig}"], options.jobs)
    }
    for name in _OTHERS:
        if name in options.without:
            continue
        if name == "floor":
            floor = [*python, "benchmarks.burst.floor", "--kubeconfig", "{kubeconfig}"]
            results[name] = contend(name, floor, options.jobs)
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = _upstream(Path(folder), raised=name == "raised")
            variables = {"KUBECONFIG": "{kubeconfig}", "TMPDIR": folder}
            results[name] = contend(name, command, options.jobs, variables)
    ours = results["trainyard"]
    for name in [name for name in results if name != "trainyard"]:
        results[f"ratio to {name}"] = {key: round(ours[key] / results[name][key], 2) for key in _COMPARED}
    publish("burst", results)


def _upstream(folder: Path, *, raised: bool) -> list[str]:
    """Return the command of upstream's controller, with its client's limit as shipped or raised out of the way."""
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.authority("burst", now=now, lifetime=datetime.timedelta(days=1))
    pair = pki.issue(
        authority, "localhost", now=now, lifetime=datetime.timedelta(days=1), dns_names=["localhost"], server=True
    )
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True)
    (certificates / "tls.crt").write_bytes(pair.certificate)
    (certificates / "tls.key").write_bytes(pair.key)
    configuration: dict[str, Any] = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": 29443, "host": "127.0.0.1"},
        "certManagement": {"enable": False},
    }
    if raised:
        configuration["clientConnection"] = {"qps": 5000, "burst": 5000}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return [str(program_path("trainer-controller-manager")), f"--config={file}", "--zap-log-level=error"]


if __name__ == "__main__":
    main()
