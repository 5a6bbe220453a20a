"""The latency that admission policies add, Trainyard's against Gatekeeper's with the same rules.

    python -m benchmarks.admission [--requests 1000] [--tenants 10,1000]

Five API servers run beside each other and answer the same requests in turn: without policies (`none`), with the
controller's webhooks but no policies (`webhooks`: defaults and validation, as any trainer has them), with Trainyard's
ValidatingAdmissionPolicies only (`policies`), with policies, webhooks and policy server (`platform`), and with
Gatekeeper and the same rules (`gatekeeper`). Before anything is timed, the cases of the rules must have equal verdicts.
Writes `benchmarks/results/admission.json` and prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.admission import ours
from benchmarks.admission.agreement import agreement, comparable_cases
from benchmarks.admission.calls import Caller
from benchmarks.admission.gatekeeper import run_gatekeeper
from benchmarks.admission.measure import measure, warm_up
from benchmarks.admission.report import ratios, table
from benchmarks.admission.scene import TARGETS, add_tenants, furnish, tenant, timed
from benchmarks.admission.servers import Machine, Plane, awaited
from benchmarks.recording import result_file
from trainyard.settings.versions import KUBERNETES_VERSION, PROGRAMS

CONTENDERS = ("none", "webhooks", "policies", "platform", "gatekeeper")
WARM_UP = 30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=1000, help="of each kind, for each contender")
    parser.add_argument("--tenants", default="10,1000", help="numbers of tenants, ascending; the first is 10")
    parser.add_argument("--output", type=Path, default=result_file("admission"))
    options = parser.parse_args()
    counts = [int(count) for count in options.tenants.split(",")]
    if counts != sorted(counts) or counts[0] < TARGETS:
        parser.error(f"--tenants must ascend from {TARGETS} or more")
    with tempfile.TemporaryDirectory(prefix="adm-") as folder, Machine(Path(folder)) as machine:
        for results in _measured(machine, counts, options.requests):
            options.output.parent.mkdir(exist_ok=True)
            options.output.write_text(json.dumps(results, indent=2) + "\n")
            count, stage = list(results["tenants"].items())[-1]
            print(f"\n{count} tenants\n{table(stage['latency'])}\nresident MiB: {json.dumps(stage['memory_mib'])}\n")


def _measured(machine: Machine, counts: list[int], requests: int) -> Iterator[dict[str, Any]]:
    """Yield the figures so far, once after each number of tenants."""
    cases = comparable_cases()
    planes = {name: machine.plane(name) for name in CONTENDERS}
    for plane in planes.values():
        _say(f"furnish {plane.name}")
        furnish(plane)
        add_tenants(plane, 0, counts[0])
    results: dict[str, Any] = {"cores": os.cpu_count(), "versions": _versions(), "rules": _install(machine, planes)}
    callers = {name: Caller(plane) for name, plane in planes.items()}
    _await_rules(callers, counts[0])
    _say(f"compare the verdicts about {len(cases)} cases")
    results["cases"] = agreement(callers, cases)
    _say(json.dumps(results["cases"]))
    results["tenants"] = {}
    present = counts[0]
    for count in counts:
        for caller in callers.values():
            caller.rest()
            add_tenants(caller.plane, present, count)
        present = count
        _await_rules(callers, count)
        warm_up(callers, WARM_UP)
        _say(f"measure with {count} tenants")
        before = os.getloadavg()[0]
        latency = measure(callers, requests)
        results["tenants"][str(count)] = {
            "load_average": [round(before, 1), round(os.getloadavg()[0], 1)],
            "latency": latency,
            "ratios": {request: ratios(figures) for request, figures in latency.items()},
            "memory_mib": {name: plane.memory() for name, plane in planes.items()},
        }
        yield results


def _install(machine: Machine, planes: Mapping[str, Plane]) -> dict[str, int]:
    _say("start the policy engines")
    ours.run_controller(machine, planes["webhooks"], policies=False)
    ours.run_controller(machine, planes["platform"], policies=True)
    policies = {ours.install_policies(planes[name]) for name in ("policies", "platform")}
    return {"policies": policies.pop(), "gatekeeper": run_gatekeeper(machine, planes["gatekeeper"])}


def _await_rules(callers: Mapping[str, Caller], tenants: int) -> None:
    """Return once the rules act, and know the limits of the tenant that was made last."""
    trespassing = timed()["JobSet"]
    [job] = trespassing["spec"]["replicatedJobs"]
    job["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "language"}}
    last = tenant(tenants - 1)
    for name, caller in callers.items():
        awaited(f"{name} allows what it should", lambda caller=caller: _allows(caller, last))  # type: ignore[misc]
        if name in ("policies", "platform", "gatekeeper"):
            awaited(
                f"{name} refuses what it should",
                lambda caller=caller: "QUE-002" in caller.ask(trespassing, last).denials,  # type: ignore[misc]
            )


def _allows(caller: Caller, namespace: str) -> bool:
    # The last tenants have no ServiceAccount that a Pod could run as.
    bodies = (body for kind, body in timed().items() if kind != "Pod")
    return all(caller.ask(body, namespace).allowed for body in bodies)


def _versions() -> dict[str, str]:
    wanted = {program.name: program.version for program in PROGRAMS if program.name in ("opa", "gatekeeper")}
    return {"kubernetes": KUBERNETES_VERSION, **wanted}


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    main()
