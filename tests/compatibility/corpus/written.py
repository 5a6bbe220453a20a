"""Cases written down: each names the job_state that it is about."""

from __future__ import annotations

from collections.abc import Iterator

from tests.compatibility.corpus.case import (
    ANCESTOR,
    QUEUE,
    Body,
    Case,
    Draft,
    container,
    initializer,
    patch,
    pod_patch,
    replicated_job,
    runtime_spec,
    trainer,
)
from tests.compatibility.corpus.refusals import names, refused, runtimes
from tests.compatibility.corpus.shared import COSCHEDULING, TORCH, VOLCANO, torch_draft
from tests.compatibility.corpus.training import injections, mpi, torchtune

FRAMEWORKS: dict[str, Body] = {
    "torch": {"torch": {}},
    "jax": {"jax": {}},
    "xgboost": {"xgboost": {}},
    "flux": {"flux": {}},
    "plain": {},
}
QUANTITIES = ("500m", "1.5", "1e3", "1Ki", "2", 3, "0.001", "2e3", "1n", "12e-1", "3M", "0")
AFFINITY: Body = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
        }
    }
}


def written() -> Iterator[Case]:
    """Yield every written case."""
    groups = {
        "framework": _frameworks(),
        "quantity": _quantities(),
        "gang": _gangs(),
        "port": _ports(),
        "patch": _patches(),
        "loader": _initializers(),
        "mpi": mpi(),
        "tune": torchtune(),
        "inject": injections(),
        "resource": _resources(),
        "count": _counts(),
        "refused": refused(),
        "runtime": runtimes(),
        "name": names(),
    }
    for group, drafts in groups.items():
        for draft in drafts:
            draft.name = f"{group}-{draft.name}"
            yield draft.case()


def _frameworks() -> Iterator[Draft]:
    for name, policy in FRAMEWORKS.items():
        yield Draft(f"{name}-two", runtime_spec(trainer(), mlPolicy=policy), {"trainer": {"numNodes": 2}})
        everything = {
            "numNodes": 3,
            "numProcPerNode": 2,
            "image": "user:1",
            "command": ["a", "b"],
            "args": ["c d", "e"],
            "env": [{"name": "A", "value": "1"}],
            "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "1"}},
        }
        yield Draft(f"{name}-all", runtime_spec(trainer(), mlPolicy=policy), {"trainer": everything})
        yield Draft(
            f"{name}-suspended", runtime_spec(trainer(), mlPolicy=policy), {"trainer": {"numNodes": 1}, "suspend": True}
        )
        yield Draft(
            f"{name}-runtime-nodes",
            runtime_spec(trainer(), mlPolicy={**policy, "numNodes": 4}),
            {"trainer": {"numProcPerNode": 1}},
        )
        if name != "flux":
            yield Draft(f"{name}-bare", runtime_spec(trainer(), mlPolicy=policy), {})
    yield Draft("too-many", runtime_spec(trainer(), mlPolicy=FRAMEWORKS["torch"]), {"trainer": {"numNodes": 100_001}})
    yield Draft("no-policy", runtime_spec(trainer()), {"trainer": {"numNodes": 2, "image": "user:1"}})
    yield Draft("flux-no-nodes", runtime_spec(trainer(), mlPolicy={"flux": {}}), {"trainer": {"image": "user:1"}})
    yield Draft("flux-no-trainer", runtime_spec(trainer(), mlPolicy={"flux": {}, "numNodes": 2}), {})
    quoted = {"numNodes": 2, "command": ["bash", "-c"], "args": ["echo 'a b' | cat", "$HOME"]}
    yield Draft("flux-quoting", runtime_spec(trainer(), mlPolicy={"flux": {}}), {"trainer": quoted})
    names = ("FLUX_VIEW_IMAGE", "FLUX_NETWORK_DEVICE", "FLUX_QUEUE_POLICY")
    empty = {"numNodes": 2, "env": [{"name": name, "value": ""} for name in names]}
    yield Draft("flux-empty-settings", runtime_spec(trainer(), mlPolicy={"flux": {}}), {"trainer": empty})
    runtime_command = trainer(containers=[container("node", command=["lmp", "-in"], args=["x y"])])
    yield Draft(
        "flux-runtime-command", runtime_spec(runtime_command, mlPolicy={"flux": {}}), {"trainer": {"numNodes": 2}}
    )
    one_line = {"numNodes": 2, "command": ["lmp -in in.reaxff"]}
    yield Draft("flux-one-line", runtime_spec(trainer(), mlPolicy={"flux": {}}), {"trainer": one_line})
    environment = [{"name": "URL", "value": "$(DMLC_TRACKER_URI)"}]
    yield Draft("xgboost-env", runtime_spec(trainer(), mlPolicy={"xgboost": {}}), {"trainer": {"env": environment}})
    expands = [{"name": "URL", "value": "$(PET_MASTER_ADDR)"}]
    yield Draft("torch-env", runtime_spec(trainer(), **TORCH), {"trainer": {"numNodes": 2, "env": expands}})
    for name, policy in FRAMEWORKS.items():
        other = replicated_job("worker", ancestor="trainer", containers=[container("node")])
        yield Draft(f"{name}-worker", runtime_spec(other, mlPolicy=policy), {"trainer": {"numNodes": 2}})
        ring = {"network": {"subdomain": "ring"}}
        yield Draft(
            f"{name}-subdomain", runtime_spec(trainer(), jobset=ring, mlPolicy=policy), {"trainer": {"numNodes": 2}}
        )
        lost = replicated_job("node", containers=[container("node")])
        yield Draft(f"{name}-unlabelled", runtime_spec(lost, mlPolicy=policy), {"trainer": {"numNodes": 2}})


def _quantities() -> Iterator[Draft]:
    for number, amount in enumerate(QUANTITIES):
        limits = {"limits": {"cpu": amount, "memory": amount}}
        yield torch_draft(f"limits-{number}", {"trainer": {"resourcesPerNode": limits}}, policy=COSCHEDULING)
        own = trainer(containers=[container("node", resources={"requests": {"cpu": amount, "memory": amount}})])
        yield torch_draft(f"runtime-{number}", {"trainer": {"numNodes": 3}}, own, policy=COSCHEDULING)
    for framework in ("torch", "xgboost"):
        memory = trainer(containers=[container("node", resources={"limits": {"nvidia.com/gpumem": 3031, "cpu": 4}})])
        spec = runtime_spec(memory, mlPolicy={framework: {}})
        yield Draft(f"{framework}-gpu-memory", spec, {"trainer": {"numNodes": 2}})
    stale = trainer(containers=[container("node", resources={"requests": {"cpu": "1"}})])
    yield torch_draft("cpu-limit", {"trainer": {"resourcesPerNode": {"limits": {"cpu": "3"}}}}, stale)
    levels: dict[str, Body] = {
        "limits": {"limits": {"cpu": "8"}},
        "requests": {"requests": {"cpu": "4"}, "limits": {"cpu": "8", "memory": "8Gi"}},
    }
    for name, resources in levels.items():
        own = [container("node", resources={"requests": {"cpu": "1"}})]
        node = trainer(containers=own, pod={"resources": resources})
        yield torch_draft(f"pod-level-{name}", {"trainer": {"numNodes": 2}}, node, policy=COSCHEDULING)
    gpus = trainer(containers=[container("node", resources={"limits": {"nvidia.com/gpu": 4}})])
    yield torch_draft("gpu-limits", {"trainer": {"numNodes": 2}}, gpus, policy=VOLCANO)


def _gangs() -> Iterator[Draft]:
    for gang, policy in (("volcano", VOLCANO), ("coscheduling", COSCHEDULING)):
        yield torch_draft(f"{gang}-plain", {"trainer": {"numNodes": 4}}, policy=policy)
        node = trainer(dependsOn=[{"name": "dataset-initializer", "status": "Complete"}])
        yield torch_draft(f"{gang}-steps", {"trainer": {"numNodes": 2}}, initializer("dataset"), node, policy=policy)
        ready = trainer(dependsOn=[{"name": "server", "status": "Ready"}])
        yield torch_draft(f"{gang}-ready", {"trainer": {"numNodes": 2}}, replicated_job("server"), ready, policy=policy)
        several = replicated_job("server", replicas=3, job={"parallelism": 2})
        yield torch_draft(f"{gang}-replicas", {"trainer": {"numNodes": 2}}, several, trainer(), policy=policy)
        named = trainer(pod={"schedulerName": "other"})
        yield torch_draft(f"{gang}-scheduler", {"trainer": {"numNodes": 2}}, named, policy=policy)
        yield torch_draft(f"{gang}-suspended", {"trainer": {"numNodes": 2}, "suspend": True}, policy=policy)
        critical = trainer(pod={"priorityClassName": "system-cluster-critical"})
        yield torch_draft(f"{gang}-priority", {"trainer": {"numNodes": 2}}, critical, policy=policy)
        helper = trainer(pod={"initContainers": [container("setup", resources={"requests": {"cpu": "4"}})]})
        yield torch_draft(f"{gang}-init", {"trainer": {"numNodes": 2}}, helper, policy=policy)
        side = container("proxy", resources={"requests": {"cpu": "1"}}, restartPolicy="Always")
        yield torch_draft(
            f"{gang}-sidecar", {"trainer": {"numNodes": 2}}, trainer(pod={"initContainers": [side]}), policy=policy
        )
    for mode in ("hard", "soft"):
        topology = {"podGroupPolicy": {"volcano": {"networkTopology": {"mode": mode, "highestTierAllowed": 2}}}}
        yield torch_draft(f"topology-{mode}", {"trainer": {"numNodes": 2}}, policy=topology)
    yield torch_draft("topology-default", {}, policy={"podGroupPolicy": {"volcano": {"networkTopology": {}}}})
    queue = [patch(metadata={"annotations": {QUEUE: "team-b"}})]
    yield torch_draft("queue-patched", {"runtimePatches": queue}, policy=VOLCANO)
    yield torch_draft("queue-empty", {"runtimePatches": [patch(metadata={"annotations": {QUEUE: ""}})]}, policy=VOLCANO)
    yield torch_draft(
        "queue-wrong", {"runtimePatches": [patch(metadata={"annotations": {QUEUE: "No Queue!"}})]}, policy=VOLCANO
    )
    two = trainer(pod={"priorityClassName": "missing"})
    yield torch_draft("priority-missing", {}, two, policy=VOLCANO)
    first = replicated_job("first", pod={"priorityClassName": "system-node-critical"})
    yield torch_draft("priority-behind", {}, first, trainer(pod={"priorityClassName": "missing"}), policy=VOLCANO)
    both = {"podGroupPolicy": {"volcano": {}, "coscheduling": {}}}
    yield torch_draft("both", {}, policy=both)


def _ports() -> Iterator[Draft]:
    options: dict[str, list[Body]] = {
        "unnamed": [{"containerPort": 80}],
        "two-unnamed": [{"containerPort": 80}, {"containerPort": 81}],
        "named": [{"containerPort": 80, "name": "http"}, {"containerPort": 81, "name": "admin"}],
        "taken": [{"containerPort": 29500, "name": "own", "hostPort": 29500}],
        "udp": [{"containerPort": 29500, "protocol": "UDP", "name": "own"}],
        "same": [{"containerPort": 29500}],
    }
    for framework in ("torch", "jax", "xgboost"):
        for name, entries in options.items():
            node = trainer(containers=[container("node", ports=entries)])
            yield Draft(
                f"{framework}-{name}", runtime_spec(node, mlPolicy={framework: {}}), {"trainer": {"numNodes": 2}}
            )


def _patches() -> Iterator[Draft]:
    node = trainer(
        containers=[
            container("node", env=[{"name": "A", "value": "a"}], volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            container(
                "helper", env=[{"name": "X", "value": "x"}, {"name": "Y", "value": "y"}, {"name": "Z", "value": "z"}]
            ),
        ],
        pod={
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}],
            "initContainers": [container("setup")],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "nodeSelector": {"zone": "a", "disk": "hdd"},
            "affinity": AFFINITY,
            "imagePullSecrets": [{"name": "one"}],
            "securityContext": {"fsGroup": 1, "runAsUser": 2},
        },
        pod_metadata={"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}},
    )
    fields: dict[str, Body] = {
        "service-account": {"serviceAccountName": "patched"},
        "node-selector": {"nodeSelector": {"zone": "b", "new": "x"}},
        "tolerations": {"tolerations": [{"key": "b", "operator": "Exists"}]},
        "affinity": {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}
            }
        },
        "affinity-same": {"affinity": AFFINITY},
        "volumes": {"volumes": [{"name": "new", "emptyDir": {"medium": "Memory"}}]},
        "volumes-order": {"volumes": [{"name": "more", "emptyDir": {}}, {"name": "first", "emptyDir": {}}]},
        "volume-source": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]},
        "pull-secrets": {"imagePullSecrets": [{"name": "two"}, {"name": "one"}]},
        "security": {"securityContext": {"runAsUser": 9, "runAsNonRoot": True}},
        "gates": {"schedulingGates": [{"name": "acme.io/gate"}]},
        "grace": {"terminationGracePeriodSeconds": 0},
        "mounts": {"containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/other"}]}]},
        "mounts-same": {
            "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}]}]
        },
        "helper-env": {
            "containers": [{"name": "helper", "env": [{"name": "N", "value": "n"}, {"name": "Y", "value": "changed"}]}]
        },
        "helper-env-source": {
            "containers": [
                {"name": "helper", "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
            ]
        },
        "container-security": {"containers": [{"name": "node", "securityContext": {"runAsUser": 3}}]},
        "init-env": {"initContainers": [{"name": "setup", "env": [{"name": "S", "value": "s"}]}]},
        "reserved-env": {"containers": [{"name": "node", "env": [{"name": "S", "value": "s"}]}]},
        "unknown-container": {"containers": [{"name": "nobody", "securityContext": {"runAsUser": 1}}]},
        "unknown-init": {"initContainers": [{"name": "nobody", "env": [{"name": "S", "value": "s"}]}]},
        "init-as-container": {"containers": [{"name": "setup", "securityContext": {"runAsUser": 1}}]},
        "empty-lists": {"tolerations": [], "volumes": [], "imagePullSecrets": [], "schedulingGates": []},
        "empty": {},
    }
    for name, pod in fields.items():
        yield torch_draft(name, {"runtimePatches": [patch(pod_patch(**pod))]}, node, policy=COSCHEDULING)
    for name in ("node-selector", "tolerations", "volumes", "pull-secrets", "helper-env"):
        twice = [
            patch(pod_patch(**fields[name]), manager="a.io/one"),
            patch(pod_patch(**fields["security"]), manager="b.io/two"),
        ]
        yield torch_draft(f"two-{name}", {"runtimePatches": twice, "trainer": {"numNodes": 2}}, node)
    several = [patch(pod_patch(nodeSelector={"zone": value}), manager=f"{value}.io/m") for value in ("x", "y", "z")]
    yield torch_draft("last-wins", {"runtimePatches": several}, node)
    labelled = pod_patch(
        metadata={"labels": {"b": "9", "n": "1"}}, job_metadata={"labels": {"j": "1"}, "annotations": {"k": "2"}}
    )
    yield torch_draft("metadata", {"runtimePatches": [patch(labelled, metadata={"labels": {"top": "1"}})]}, node)
    side = replicated_job("side", containers=[container("side")])
    order = [patch(pod_patch("side", serviceAccountName="s"), pod_patch("node", serviceAccountName="n"))]
    yield torch_draft("jobs-order", {"runtimePatches": order}, side, node)
    yield torch_draft("unknown-job", {"runtimePatches": [patch(pod_patch("nobody", serviceAccountName="s"))]}, node)
    attach = pod_patch("side", job_metadata={"labels": {ANCESTOR: "trainer"}})
    yield torch_draft(
        "attach",
        {"runtimePatches": [patch(attach)], "trainer": {"numNodes": 2}},
        replicated_job("side", containers=[container("node")]),
    )
    detach = pod_patch("node", job_metadata={"labels": {ANCESTOR: "none"}})
    yield torch_draft("detach", {"runtimePatches": [patch(detach)], "trainer": {"numNodes": 2}}, node)
    for number, manager in enumerate(
        ("plain", "acme.io/", "/x", "ACME.io/x", "acme.io/a/b", "acme.io/A_b", "a.io/x y")
    ):
        yield torch_draft(f"manager-{number}", {"runtimePatches": [patch(manager=manager)]}, node)
    yield torch_draft("no-template", {"runtimePatches": [{"manager": "a.io/b"}]}, node)
    yield torch_draft(
        "trainer-wins",
        {
            "runtimePatches": [patch(pod_patch(**fields["mounts"]))],
            "trainer": {"image": "u:1", "env": [{"name": "A", "value": "u"}]},
        },
        node,
    )


def _initializers() -> Iterator[Draft]:
    full = {
        "storageUri": "hf://org/name",
        "env": [{"name": "A", "value": "1"}, {"name": "STORAGE_URI", "value": "hf://mine/own"}],
        "secretRef": {"name": "token"},
    }
    for kind in ("dataset", "model"):
        node = trainer(dependsOn=[{"name": f"{kind}-initializer", "status": "Complete"}])
        yield torch_draft(f"{kind}-full", {"initializer": {kind: full}}, initializer(kind), node)
        yield torch_draft(f"{kind}-empty", {"initializer": {kind: {}}}, initializer(kind), node)
        yield torch_draft(
            f"{kind}-secret", {"initializer": {kind: {"secretRef": {"name": "s"}}}}, initializer(kind), node
        )
        yield torch_draft(f"{kind}-absent", {"initializer": {kind: full}}, trainer())
        yield torch_draft(f"{kind}-unmounted", {"initializer": {kind: full}}, initializer(kind, mounted=False), node)
        unlabelled = replicated_job(
            f"{kind}-initializer",
            containers=[container(f"{kind}-initializer", volumeMounts=[{"name": "initializer", "mountPath": "/w"}])],
        )
        yield torch_draft(f"{kind}-unlabelled", {"initializer": {kind: full}}, unlabelled, node)
        other = replicated_job(f"{kind}-initializer", containers=[container("other")])
        yield torch_draft(f"{kind}-no-container", {"initializer": {kind: full}}, other, node)
        own = [{"name": "STORAGE_URI", "value": "hf://runtime/default"}, {"name": "Z", "value": "z"}]
        preset = initializer(kind)
        preset["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = own
        preset["template"]["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "c"}}]
        yield torch_draft(f"{kind}-preset", {"initializer": {kind: full}}, preset, node)
        yield torch_draft(f"{kind}-unused", {"trainer": {"numNodes": 2}}, preset, node)
        yield torch_draft(
            f"{kind}-bad-uri", {"initializer": {kind: {"storageUri": "nowhere"}}}, initializer(kind), node
        )
        images = initializer(kind)
        fetching = images["template"]["spec"]["template"]["spec"]["containers"][0]
        fetching["image"] = f"ghcr.io/kubeflow/trainer/{kind}-initializer:v2.3.0"
        yield torch_draft(f"{kind}-unknown-scheme", {"initializer": {kind: {"storageUri": "gs://a/b"}}}, images, node)
    jobs = (initializer("dataset"), initializer("model"), trainer())
    yield torch_draft(
        "both", {"initializer": {"dataset": full, "model": full}, "trainer": {"numNodes": 2}}, *jobs, policy=VOLCANO
    )
    sources = [
        {"name": "F", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "K", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
        {"name": "B", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    ]
    for entry in sources:
        yield torch_draft(f"env-{entry['name'].lower()}", {"trainer": {"env": [entry]}})


def _resources() -> Iterator[Draft]:
    base = {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1", "nvidia.com/gpu": 1}}
    asked: dict[str, Body] = {
        "limits": {"limits": {"cpu": "8"}},
        "requests": {"requests": {"memory": "1Gi"}},
        "both": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 2}},
        "empty": {},
        "empty-limits": {"limits": {}},
        "claims": {"claims": [{"name": "device"}], "limits": {"cpu": "1"}},
        "amd": {"limits": {"amd.com/gpu": 2}},
        "mig": {"limits": {"nvidia.com/mig-1g.5gb": 2}},
    }
    node = trainer(containers=[container("node", resources=base), container("helper")])
    for name, resources in asked.items():
        yield torch_draft(name, {"trainer": {"resourcesPerNode": resources}}, node, policy=COSCHEDULING)
        yield Draft(f"{name}-no-policy", runtime_spec(node), {"trainer": {"resourcesPerNode": resources}})
        plain = runtime_spec(node, mlPolicy={"numNodes": 2})
        yield Draft(f"{name}-plain", plain, {"trainer": {"resourcesPerNode": resources}})


def _counts() -> Iterator[Draft]:
    for name, fields in {
        "zero": {"numNodes": 0},
        "negative": {"numNodes": -1},
        "processes-zero": {"numProcPerNode": 0},
        "processes-negative": {"numProcPerNode": -2},
        "many": {"numNodes": 1000},
    }.items():
        yield torch_draft(name, {"trainer": fields})
    yield torch_draft("runtime-zero", {}, policy={"mlPolicy": {"torch": {}, "numNodes": 0}})
    parallel = trainer(job={"parallelism": 3, "completions": 5})
    yield torch_draft("parallelism", {}, parallel)
    yield Draft("parallelism-no-policy", runtime_spec(parallel), {})
    yield Draft("parallelism-asked", runtime_spec(parallel), {"trainer": {"numNodes": 7}})
    side = replicated_job("side", job={"parallelism": 3, "completions": 5}, replicas=2)
    yield torch_draft("side", {"trainer": {"numNodes": 2}}, side, trainer())
    yield Draft(
        "flux-zero", runtime_spec(trainer(), mlPolicy={"flux": {}}), {"trainer": {"numNodes": 1, "numProcPerNode": 0}}
    )
    two = (trainer(), replicated_job("second", ancestor="trainer", containers=[container("node")]))
    yield torch_draft("two-trainers", {"trainer": {"numNodes": 3, "image": "u:1"}}, *two)
