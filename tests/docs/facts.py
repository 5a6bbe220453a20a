"""Rendered objects of the first TrainJob of a guide, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.docs.block_faults import of_train_job

Object = dict[str, Any]

_LONGEST = 400


def facts_of(job: Object) -> str:
    """Return the tables about a TrainJob on stack local."""
    became, _ = of_train_job(job)
    assert became.objects, became.errors
    by_kind = {body["kind"]: body for body in became.objects}
    job_set = by_kind["JobSet"]
    lines = [*_pods(job_set), "", *_gang(by_kind, job_set), "", *_variables(job_set, job)]
    commands = list(_commands(job_set))
    if commands:
        lines += ["", *commands]
    files = list(_files(became.objects))
    if files:
        lines += ["", *files]
    return "\n".join(lines)


def _pods(job_set: Object) -> Iterator[str]:
    yield "| replicatedJob | pods | DNS names | depends on | ports | mounts |"
    yield "|---|---|---|---|---|---|"
    name, spec = job_set["metadata"]["name"], job_set["spec"]
    subdomain = (spec.get("network") or {}).get("subdomain") or name
    for job in spec["replicatedJobs"]:
        pods = job["template"]["spec"]["parallelism"]
        hosts = f"`{name}-{job['name']}-0-0.{subdomain}`" + (f" … `-{pods - 1}`" if pods > 1 else "")
        waits = ", ".join(f"`{each['name']}` {each['status']}" for each in job.get("dependsOn", ())) or "–"
        container = _container(job)
        ports = ", ".join(str(port["containerPort"]) for port in container.get("ports", ())) or "–"
        mounts = ", ".join(f"`{mount['mountPath']}`" for mount in container.get("volumeMounts", ())) or "–"
        yield f"| `{job['name']}` | {pods} | {hosts} | {waits} | {ports} | {mounts} |"


def _gang(by_kind: dict[str, Object], job_set: Object) -> Iterator[str]:
    group = by_kind.get("PodGroup")
    if group is None:
        yield "No PodGroup."
    else:
        spec = group["spec"]
        topology = spec.get("networkTopology")
        least = spec["minMember"]
        where = ""
        if topology:
            tier = topology.get("highestTierName") or f"tier {topology.get('highestTierAllowed')}"
            where = f", inside one domain of {tier} ({topology['mode']})"
        pods = "1 pod fits" if least == 1 else f"{least} pods fit"
        needs = ", ".join(f"{amount} {name}" for name, amount in sorted((spec.get("minResources") or {}).items()))
        amounts = f"minMember {least}; {needs or 'no resources'}"
        yield f"PodGroup: starts when {pods}{where} ({amounts}), in queue `{spec.get('queue')}`."
    policy = job_set["spec"].get("successPolicy")
    inner = [job for job in job_set["spec"]["replicatedJobs"] if "successPolicy" in job["template"]["spec"]]
    if policy and policy.get("targetReplicatedJobs"):
        yield f"The job succeeds with `{', '.join(policy['targetReplicatedJobs'])}`."
    elif inner:
        yield f"The job succeeds with the first pod of `{inner[0]['name']}`."
    else:
        yield "The job succeeds when all pods succeed."


def _variables(job_set: Object, job: Object) -> Iterator[str]:
    own = {each["name"] for each in (job["spec"].get("trainer") or {}).get("env", ())}
    rows: dict[tuple[str, str], list[str]] = {}
    for each in job_set["spec"]["replicatedJobs"]:
        for variable in _container(each).get("env", ()):
            if variable["name"] not in own:
                rows.setdefault((variable["name"], _value(variable)), []).append(f"`{each['name']}`")
    if not rows:
        yield "No variables."
        return
    yield "| variable | value | in |"
    yield "|---|---|---|"
    for (name, value), places in rows.items():
        yield f"| `{name}` | {value} | {', '.join(places)} |"


def _value(variable: Object) -> str:
    if "valueFrom" in variable:
        path = variable["valueFrom"]["fieldRef"]["fieldPath"]
        return "the pod's index" if "completion-index" in path else f"field `{path}`"
    value = str(variable.get("value", "")).replace("|", "\\|")
    return f"`{value}`" if value else "empty"


def _commands(job_set: Object) -> Iterator[str]:
    for job in job_set["spec"]["replicatedJobs"]:
        container = _container(job)
        words = [*container.get("command", ()), *container.get("args", ())]
        if words:
            shown = " ".join("<script>" if "\n" in word else word for word in words)
            yield f"`{job['name']}` runs `{shown}`."


def _files(objects: tuple[Object, ...]) -> Iterator[str]:
    for body in objects:
        name = body["metadata"]["name"]
        if body["kind"] == "Secret":
            yield f"Secret `{name}`: {', '.join(f'`{key}`' for key in body['stringData'])}, created once."
        elif body["kind"] == "ConfigMap" and not name.endswith("runtime-snapshot"):
            for key, text in body["data"].items():
                yield f"ConfigMap `{name}`, `{key}`:" if len(text) < _LONGEST else f"ConfigMap `{name}`, `{key}`."
                if len(text) < _LONGEST:
                    yield f"```text\n{text.rstrip()}\n```"


def _container(job: Object) -> Object:
    containers: list[Object] = job["template"]["spec"]["template"]["spec"]["containers"]
    return next((each for each in containers if each["name"] == "node"), containers[0])
