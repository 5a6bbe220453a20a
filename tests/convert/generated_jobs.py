"""Jobs of every kind as Hypothesis makes them up: what their APIs allow, in all combinations."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from trainyard.api import Body

_IMAGES: Final = ("docker.io/acme/a:1", "docker.io/acme/b:2", "ghcr.io/acme/c@sha256:0123")
_WORDS: Final = (
    *("python", "train.py", "--epochs=3", "sh", "-c", "echo $HOME", "$(RANK)", "$MASTER_ADDR"),
    *("torchrun", "--nnodes=2", "--nnodes=1:4", "--nproc-per-node=8"),
)
_AMOUNTS: Final = {"cpu": ("1", "500m", 2, 0.5), "memory": ("1Gi", "512Mi"), "nvidia.com/gpu": ("1", "8", 4)}


def some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries(required, optional=optional)


AMOUNTS = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in _AMOUNTS.items()})
RESOURCES = some({}, {"limits": AMOUNTS, "requests": AMOUNTS})
WORDS = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4)
ENV = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": st.sampled_from(("SEED", "MODE", "TZ")), "value": st.sampled_from(("1", "x"))}),
        st.just({"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}),
    ),
    max_size=3,
    unique_by=lambda entry: entry["name"],
)


def container(name: str) -> st.SearchStrategy[Body]:
    return some(
        {"name": st.just(name), "image": st.sampled_from(_IMAGES), "command": WORDS},
        {
            "args": WORDS,
            "env": ENV,
            "resources": RESOURCES,
            "imagePullPolicy": st.just("Always"),
            "workingDir": st.just("/work"),
            "ports": st.just([{"name": "web", "containerPort": 8080}]),
            "volumeMounts": st.just([{"name": "scratch", "mountPath": "/scratch"}]),
        },
    )


@st.composite
def templates(draw: st.DrawFn, main: str = "main") -> Body:
    containers = [draw(container(main))]
    if draw(st.booleans()):
        containers.insert(draw(st.sampled_from((0, 1))), draw(container("side")))
    pod = draw(
        some(
            {"volumes": st.just([{"name": "scratch", "emptyDir": {}}])},
            {
                "serviceAccountName": st.just("default"),
                "nodeSelector": st.just({"disk": "ssd"}),
                "tolerations": st.just([{"key": "gpu", "operator": "Exists"}]),
                "terminationGracePeriodSeconds": st.integers(0, 60),
                "schedulerName": st.sampled_from(("volcano", "default-scheduler")),
                "initContainers": st.tuples(container("setup")).map(list),
            },
        )
    )
    template: Body = {"spec": {**pod, "containers": containers}}
    metadata = draw(some({}, {"labels": st.just({"app": "x"}), "annotations": st.just({"example.com/a": "b"})}))
    return {"metadata": metadata, **template} if metadata else template


@st.composite
def roles(draw: st.DrawFn, main: str, most: int = 4) -> Body:
    return draw(
        some(
            {"replicas": st.integers(1, most), "template": templates(main)},
            {"restartPolicy": st.sampled_from(("Always", "OnFailure", "Never", "ExitCode"))},
        )
    )


RUN_POLICY = some(
    {},
    {
        "suspend": st.booleans(),
        "activeDeadlineSeconds": st.integers(1, 10**6),
        "ttlSecondsAfterFinished": st.integers(0, 1000),
        "backoffLimit": st.integers(0, 9),
        "cleanPodPolicy": st.sampled_from(("None", "Running", "All")),
        "managedBy": st.sampled_from(("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue", "acme.io/x")),
        "schedulingPolicy": some(
            {},
            {
                "queue": st.just("language"),
                "priorityClass": st.just("training"),
                "minAvailable": st.integers(1, 9),
                "minResources": AMOUNTS,
                "scheduleTimeoutSeconds": st.integers(0, 99),
            },
        ),
    },
)
METADATA = some(
    {"name": st.sampled_from(("a", "my-job", "run.2024", "7th"))},
    {
        "namespace": st.just("language"),
        "labels": st.sampled_from(({"team": "x"}, {"kueue.x-k8s.io/queue-name": "q"})),
        "annotations": st.sampled_from(({"example.com/a": "b"}, {"scheduling.volcano.sh/queue-name": "language"})),
        "uid": st.just("1"),
        "finalizers": st.just(["example.com/f"]),
    },
)


@st.composite
def replicated(draw: st.DrawFn, kind: str, field: str, main: str, names: tuple[tuple[str, bool], ...]) -> Body:
    """Make up a job of the training operator; a role that must be there is marked true."""
    found = {}
    for name, needed in names:
        if needed or draw(st.booleans()):
            found[name] = draw(roles(main, 1 if name in ("Master", "Launcher", "Chief") else 4))
    if {"Master", "Worker"} <= set(found) and draw(st.booleans()):
        found["Worker"] = {**found["Master"], "replicas": found["Worker"]["replicas"]}
    spec: Body = {field: found}
    if draw(st.booleans()):
        spec["runPolicy"] = draw(RUN_POLICY)
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": draw(METADATA), "spec": spec}


@st.composite
def pytorch(draw: st.DrawFn) -> Body:
    body = draw(replicated("PyTorchJob", "pytorchReplicaSpecs", "pytorch", (("Master", False), ("Worker", True))))
    if draw(st.booleans()):
        body["spec"]["nprocPerNode"] = draw(st.sampled_from(("auto", "cpu", "1", "4")))
    if draw(st.booleans()):
        body["spec"]["elasticPolicy"] = draw(
            some(
                {"minReplicas": st.integers(1, 3)},
                {
                    "maxReplicas": st.integers(3, 6),
                    "maxRestarts": st.integers(0, 9),
                    "rdzvBackend": st.sampled_from(("c10d", "etcd")),
                    "rdzvPort": st.just(29400),
                    "rdzvId": st.just("id"),
                    "rdzvConf": st.just([{"key": "timeout", "value": "9"}]),
                    "nProcPerNode": st.integers(1, 8),
                    "standalone": st.booleans(),
                    "metrics": st.just([{"type": "Resource"}]),
                },
            )
        )
    return body


@st.composite
def mpi(draw: st.DrawFn) -> Body:
    body = draw(replicated("MPIJob", "mpiReplicaSpecs", "mpi", (("Launcher", True), ("Worker", True))))
    optional = {"slotsPerWorker": st.integers(1, 8)}
    if draw(st.booleans()):
        body["apiVersion"] = "kubeflow.org/v2beta1"
        optional |= {
            "runLauncherAsWorker": st.booleans(),
            "sshAuthMountPath": st.just("/home/mpiuser/.ssh"),
            "launcherCreationPolicy": st.sampled_from(("AtStartup", "WaitForWorkersReady")),
            "mpiImplementation": st.sampled_from(("OpenMPI", "Intel", "MPICH")),
        }
    body["spec"] |= draw(some({}, optional))
    return body


@st.composite
def ray(draw: st.DrawFn) -> Body:
    params = st.fixed_dictionaries({}, optional={"num-cpus": st.just("0"), "block": st.just("true")})
    groups = []
    for index in range(draw(st.integers(0, 2))):
        replicas = draw(st.integers(1, 3))
        group = {"groupName": f"Group_{index}", "replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
        groups.append({**group, "rayStartParams": draw(params), "template": draw(templates())})
    head = {"rayStartParams": draw(params), "template": draw(templates())}
    cluster: Body = {"headGroupSpec": head, "workerGroupSpecs": groups, "rayVersion": "2.46.0"}
    cluster |= draw(some({}, {"enableInTreeAutoscaling": st.booleans(), "headServiceAnnotations": st.just({"a": "b"})}))
    if draw(st.booleans()):
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": draw(METADATA), "spec": cluster}
    spec = draw(
        some(
            {"entrypoint": st.sampled_from(("python a.py", "echo 'x y' && true", 'unbalanced "'))},
            {
                "runtimeEnvYAML": st.just("pip: [requests]"),
                "jobId": st.just("id"),
                "metadata": st.just({"a": "b"}),
                "entrypointNumCpus": st.sampled_from((1, 0.5)),
                "submissionMode": st.sampled_from(("K8sJobMode", "HTTPMode", "InteractiveMode")),
                "submitterPodTemplate": templates(),
                "ttlSecondsAfterFinished": st.integers(0, 9),
                "backoffLimit": st.integers(0, 9),
                "shutdownAfterJobFinishes": st.booleans(),
                "suspend": st.booleans(),
                "activeDeadlineSeconds": st.integers(1, 99),
            },
        )
    )
    body = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": draw(METADATA)}
    return {**body, "spec": {**spec, "rayClusterSpec": cluster}}


_SPARK_CONF = {
    "spark.executor.memory": st.sampled_from(("1g", "1536")),
    "spark.executor.instances": st.just("2"),
    "spark.dynamicAllocation.enabled": st.just("true"),
    "spark.executor.resource.gpu.amount": st.just("1"),
    "spark.executor.resource.gpu.vendor": st.just("nvidia.com"),
    "spark.kubernetes.executor.label.team": st.just("vision"),
}


@st.composite
def spark(draw: st.DrawFn) -> Body:
    def pod(**more: Any) -> Body:
        optional = {
            "cores": st.integers(1, 4),
            "memory": st.sampled_from(("512m", "2g")),
            "memoryOverhead": st.just("384m"),
            "coreLimit": st.just("4"),
            "labels": st.just({"app": "x"}),
            "envVars": st.just({"SEED": "1"}),
            "env": ENV,
            "serviceAccount": st.just("default"),
            "javaOptions": st.just("-Dx=y"),
            "secrets": st.just([{"name": "s", "path": "/s", "secretType": "Generic"}]),
            "gpu": st.just({"name": "nvidia.com/gpu", "quantity": 1}),
            "sidecars": st.tuples(container("side")).map(list),
        }
        return draw(some({}, {**optional, **more}))

    spec: Body = {
        "type": draw(st.sampled_from(("Scala", "Python", "R"))),
        "mode": draw(st.sampled_from(("cluster", "client"))),
        "image": draw(st.sampled_from(_IMAGES)),
        "mainApplicationFile": "local:///app.py",
        "driver": pod(podName=st.just("driver")),
        "executor": pod(instances=st.integers(1, 4)),
    }
    spec |= draw(
        some(
            {},
            {
                "mainClass": st.just("a.B"),
                "arguments": st.just(["--date", "today"]),
                "sparkConf": some({"spark.x": "1", "spark.kubernetes.y": "2"}, _SPARK_CONF),
                "deps": st.just({"jars": ["a.jar", "b.jar"]}),
                "restartPolicy": st.sampled_from(({"type": "Never"}, {"type": "OnFailure", "onFailureRetries": 2})),
                "dynamicAllocation": st.sampled_from(({"enabled": True, "maxExecutors": 4}, {"enabled": False})),
                "monitoring": st.just({"exposeDriverMetrics": True}),
                "batchScheduler": st.just("volcano"),
                "batchSchedulerOptions": st.just({"queue": "language", "priorityClassName": "training"}),
                "sparkConfigMap": st.just("conf"),
                "timeToLiveSeconds": st.integers(0, 9),
            },
        )
    )
    version = "sparkoperator.k8s.io/v1beta2"
    return {"apiVersion": version, "kind": "SparkApplication", "metadata": draw(METADATA), "spec": spec}


@st.composite
def volcano(draw: st.DrawFn) -> Body:
    names = draw(st.sampled_from((("master", "worker"), ("work",), ("ps", "worker"), ("one", "two", "three"))))
    policies = st.lists(
        st.sampled_from(
            (
                {"event": "PodFailed", "action": "RestartJob"},
                {"event": "PodEvicted", "action": "RestartPod"},
                {"event": "TaskCompleted", "action": "CompleteJob"},
                {"events": ["PodFailed", "JobUnknown"], "action": "AbortJob"},
                {"exitCode": 3, "action": "TerminateJob"},
                {"event": "PodFailed", "action": "RestartTask", "timeout": "1h"},
            )
        ),
        max_size=2,
    )
    tasks = []
    for index, name in enumerate(names):
        replicas = 1 if name == "master" else draw(st.integers(1, 3))
        optional = {"policies": policies, "maxRetry": st.integers(0, 9), "topologyPolicy": st.just("best-effort")}
        optional |= {"minAvailable": st.integers(0, 3)}
        if index:
            optional["dependsOn"] = st.just({"name": [names[0]]})
        task = draw(some({"name": st.just(name), "replicas": st.just(replicas), "template": templates()}, optional))
        task["template"]["spec"]["restartPolicy"] = draw(st.sampled_from(("OnFailure", "Never", "Always")))
        tasks.append(task)
    if names == ("master", "worker") and draw(st.booleans()):
        tasks[1]["template"] = tasks[0]["template"]
    plugins = st.fixed_dictionaries(
        {},
        optional={
            name: st.just([])
            for name in ("env", "svc", {"ps": "tensorflow", "master": "pytorch"}.get(names[0], "hcclrank"))
        },
    )
    spec = draw(
        some(
            {"tasks": st.just(tasks), "plugins": plugins},
            {
                "minAvailable": st.integers(1, 9),
                "queue": st.just("language"),
                "priorityClassName": st.just("training"),
                "maxRetry": st.integers(0, 9),
                "minSuccess": st.integers(1, 3),
                "policies": policies,
                "schedulerName": st.sampled_from(("volcano", "default-scheduler")),
                "ttlSecondsAfterFinished": st.integers(0, 9),
                "runningEstimate": st.just("1h"),
                "networkTopology": st.sampled_from(({"mode": "hard", "highestTierAllowed": 1}, {"mode": "soft"})),
                "volumes": st.just([{"mountPath": "/d", "volumeClaimName": "c"}]),
            },
        )
    )
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": draw(METADATA), "spec": spec}


TENSORFLOW = replicated(
    "TFJob", "tfReplicaSpecs", "tensorflow", (("Chief", False), ("PS", False), ("Worker", True), ("Evaluator", False))
)
XGBOOST = replicated("XGBoostJob", "xgbReplicaSpecs", "xgboost", (("Master", True), ("Worker", False)))
PADDLE = replicated("PaddleJob", "paddleReplicaSpecs", "paddle", (("Master", False), ("Worker", True)))
JAX = replicated("JAXJob", "jaxReplicaSpecs", "jax", (("Worker", True),))
KEEPING_COMMANDS = {
    "pytorch": pytorch(),
    "tensorflow": TENSORFLOW,
    "xgboost": XGBOOST,
    "paddle": PADDLE,
    "jax": JAX,
    "mpi": mpi(),
    "volcano": volcano(),
}
"""Kinds whose programs stay what they are."""
KINDS = {**KEEPING_COMMANDS, "ray": ray(), "spark": spark()}
