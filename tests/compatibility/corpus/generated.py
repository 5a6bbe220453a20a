"""Random runtimes and TrainJobs: every part of the API in random combinations, the same on every run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tests.compatibility.corpus.case import (
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

T = TypeVar("T")
FRAMEWORKS = ("torch", "mpi", "jax", "xgboost", "flux", "plain", "tune")
WEIGHTS = (22, 20, 12, 12, 8, 12, 14)
CPU = ("1", "2", "500m", "1.5", "250m", 3, "0.1", "1500m", "2e0", "12")
MEMORY = ("1Gi", "512Mi", "1e9", "2G", "1.5Gi", "1024Ki", "129e6", "1500M")
GPU = ("1", "2", "4", 8, "1", "2")
MODELS = ("llama3.2-1b", "llama3.2-3b", "llama3.3-70b", "qwen2.5-1.5b")
LORA = "model.lora_attn_modules=['q_proj','v_proj']"
TUNE_OVERRIDES = (
    "output_dir=/workspace/output",
    "tokenizer.path=/workspace/model/tokenizer.model",
    "checkpointer.checkpoint_dir=/workspace/model",
    "tokenizer.merges_file=/workspace/model/merges.txt",
    "dataset=alpaca",
)


def generated(count: int, seed: int) -> Iterator[Case]:
    """Yield random cases."""
    for number in range(count):
        yield _Generator(random.Random(f"{seed}/{number}"), f"g{number:03d}").draft().case()


class _Generator:
    """Draws one case."""

    def __init__(self, source: random.Random, name: str) -> None:
        self._random = source
        self._name = name
        self._framework = source.choices(FRAMEWORKS, WEIGHTS)[0]

    def draft(self) -> Draft:
        jobs = self._jobs()
        metadata = self._maybe(0.4, self._metadata)
        gang = self._gang()
        if "volcano" in gang.get("podGroupPolicy", {}) and self._chance(0.5):
            metadata = {**(metadata or {}), "annotations": {**(metadata or {}).get("annotations", {}), QUEUE: "team-a"}}
        spec = runtime_spec(*jobs, jobset=self._jobset(jobs), metadata=metadata, **self._ml_policy(), **gang)
        tune = self._framework == "tune"
        runtime_name = f"torchtune-{self._pick(MODELS)}" if tune else None
        labels = {"trainer.kubeflow.org/framework": self._framework} if self._chance(0.3) else {}
        return Draft(
            self._name,
            spec,
            self._train_job(jobs),
            job_name=self._pick(("job", "job", "train-1", "a", "my-long-job-name")),
            runtime_name=runtime_name,
            cluster=not tune and self._chance(0.5),
            runtime_labels=labels,
            metadata=self._maybe(0.2, self._metadata) or {},
        )

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _pick(self, options: Any) -> Any:
        return self._random.choice(options)

    def _maybe(self, probability: float, draw: Callable[[], T]) -> T | None:
        return draw() if self._chance(probability) else None

    def _some(self, **draws: tuple[float, Callable[[], Any]]) -> Body:
        """Return a body in which each field is present with its probability."""
        return {name: draw() for name, (probability, draw) in draws.items() if self._chance(probability)}

    def _metadata(self) -> Body:
        keys = ("app", "team", "acme.io/kind", "tier")
        return self._some(
            labels=(0.8, lambda: {key: self._pick(("x", "y", "z")) for key in self._random.sample(keys, 2)}),
            annotations=(0.6, lambda: {key: self._pick(("one", "two", "")) for key in self._random.sample(keys, 2)}),
        )

    def _gang(self) -> Body:
        kind = self._random.choices(("none", "coscheduling", "volcano"), (5, 2, 3))[0]
        if kind == "none":
            return {}
        if kind == "coscheduling":
            return {"podGroupPolicy": {kind: self._some(scheduleTimeoutSeconds=(0.5, lambda: self._pick((30, 120))))}}
        topology = self._some(
            mode=(0.6, lambda: self._pick(("hard", "soft"))), highestTierAllowed=(0.6, lambda: self._pick((1, 2, 3)))
        )
        return {"podGroupPolicy": {kind: {"networkTopology": topology} if self._chance(0.5) else {}}}

    def _ml_policy(self) -> Body:
        source: Body = {}
        if self._framework in ("torch", "tune"):
            source = {"torch": {}}
        elif self._framework in ("jax", "xgboost"):
            source = {self._framework: {}}
        elif self._framework == "mpi":
            source = {
                "mpi": self._some(
                    numProcPerNode=(0.6, lambda: self._pick((1, 2, 8))),
                    mpiImplementation=(0.4, lambda: "OpenMPI"),
                    sshAuthMountPath=(0.5, lambda: self._pick(("/root/.ssh", "/home/mpiuser/.ssh"))),
                    runLauncherAsNode=(0.6, lambda: self._chance(0.7)),
                )
            }
        elif self._framework == "flux":
            source = {"flux": self._some(numProcPerNode=(0.5, lambda: self._pick((1, 2, 4))))}
        elif self._chance(0.4):
            return {}
        if self._chance(0.6):
            source["numNodes"] = self._pick((1, 1, 2, 3, 16))
        return {"mlPolicy": source}

    def _jobs(self) -> list[Body]:
        jobs = [initializer(kind, **self._waiting()) for kind in ("dataset", "model") if self._chance(0.25)]
        before = [job["name"] for job in jobs]
        waits = {"dependsOn": [{"name": name, "status": "Complete"} for name in before]} if before else {}
        if self._framework == "mpi":
            jobs += self._mpi_jobs(waits)
        else:
            own = self._training_container()
            extra = [container("sidecar", **self._container_fields())] if self._chance(0.25) else []
            containers = self._random.sample([own, *extra], 1 + len(extra))
            jobs.append(
                trainer(
                    containers=containers,
                    pod=self._pod(),
                    job=self._job(),
                    pod_metadata=self._maybe(0.3, self._metadata),
                    metadata=self._maybe(0.2, self._metadata),
                    **waits,
                    **(self._some(replicas=(0.2, lambda: 1))),
                )
            )
        if self._chance(0.15):
            side = replicated_job("side", pod=self._pod(), job=self._job(), **self._some(replicas=(0.4, lambda: 2)))
            jobs.insert(self._random.randint(0, len(jobs)), side)
            if waits and jobs.index(side) < len(before):
                jobs.remove(side)
                jobs.append(side)
        return jobs

    def _mpi_jobs(self, waits: Body) -> list[Body]:
        node = replicated_job(
            "node", containers=[container("node", **self._container_fields())], pod=self._pod(), job=self._job()
        )
        launcher = replicated_job(
            "launcher",
            ancestor="trainer",
            containers=[container("node", **self._container_fields())],
            pod=self._pod(),
            **waits,
        )
        if self._chance(0.5):
            return [launcher, node]
        if not waits:
            launcher["dependsOn"] = [{"name": "node", "status": "Ready"}]
        return [node, launcher]

    def _waiting(self) -> Body:
        return {"job": self._job()} if self._chance(0.3) else {}

    def _training_container(self) -> Body:
        if self._framework == "tune":
            chosen = [item for item in TUNE_OVERRIDES if self._chance(0.6)]
            config = ["--config", "llama3_2/1B_full"] if self._chance(0.8) else []
            command = ["tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed", *config, *chosen]
            resources = {"resources": {"limits": {"nvidia.com/gpu": self._pick((1, 2, "2"))}}}
            return container("node", command=command, **(resources if self._chance(0.7) else {}))
        return container("node", **self._container_fields())

    def _container_fields(self) -> Body:
        return self._some(
            command=(0.4, lambda: self._pick((["python", "train.py"], ["bash", "-c"], ["run"]))),
            args=(0.3, lambda: self._pick((["--epochs=1"], ["echo $HOME", "b c"], []))),
            env=(0.5, self._env),
            ports=(0.35, self._ports),
            resources=(0.55, self._resources),
            volumeMounts=(0.3, lambda: [{"name": "scratch", "mountPath": "/scratch"}]),
            securityContext=(0.15, lambda: self._pick(({"runAsUser": 1000}, {"privileged": True}))),
            imagePullPolicy=(0.15, lambda: "IfNotPresent"),
            readinessProbe=(0.1, lambda: {"tcpSocket": {"port": 2222}, "periodSeconds": 5}),
            workingDir=(0.1, lambda: "/app"),
        )

    def _env(self) -> list[Body]:
        entries = [
            {"name": "A", "value": self._pick(("1", "2", "$(B)"))},
            {"name": "B", "value": "x"},
            {"name": "EMPTY"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}},
            {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "key", "optional": True}}},
            {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"containerName": "node", "resource": "limits.cpu"}}},
        ]
        return self._random.sample(entries, self._random.randint(1, 4))

    def _ports(self) -> list[Body]:
        entries = [
            {"containerPort": 8080, "name": "http"},
            {"containerPort": 9090, "name": "metrics", "protocol": "TCP"},
            {"containerPort": 5000},
            {"containerPort": 53, "name": "dns", "protocol": "UDP"},
            {"containerPort": 29500, "name": "rendezvous"},
        ]
        return self._random.sample(entries, self._random.choice((1, 1, 2, 3)))

    def _resources(self) -> Body:
        def amounts() -> Body:
            return self._some(
                cpu=(0.7, lambda: self._pick(CPU)),
                memory=(0.5, lambda: self._pick(MEMORY)),
                **{"nvidia.com/gpu": (0.35, lambda: self._pick(GPU)), "ephemeral-storage": (0.1, lambda: "1Gi")},
            )

        return self._some(limits=(0.65, amounts), requests=(0.65, amounts))

    def _pod(self) -> Body:
        scratch = {"volumes": [{"name": "scratch", "emptyDir": {}}, *self._volumes()]}
        return scratch | self._some(
            nodeSelector=(0.2, lambda: {"zone": self._pick(("a", "b"))}),
            tolerations=(0.2, lambda: [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
            serviceAccountName=(0.15, lambda: "runner"),
            imagePullSecrets=(0.1, lambda: [{"name": "registry"}]),
            securityContext=(0.15, lambda: {"fsGroup": 1000}),
            initContainers=(0.2, lambda: [container("setup", **self._container_fields())]),
            affinity=(0.1, self._affinity),
            terminationGracePeriodSeconds=(0.1, lambda: 5),
            restartPolicy=(0.15, lambda: self._pick(("Never", "OnFailure"))),
            priorityClassName=(0.1, lambda: "system-node-critical"),
            schedulerName=(0.07, lambda: self._pick(("custom", "volcano"))),
        )

    def _volumes(self) -> list[Body]:
        entries: list[Body] = [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "config", "configMap": {"name": "config"}},
            {"name": "host", "hostPath": {"path": "/data"}},
        ]
        return self._random.sample(entries, self._random.choice((0, 0, 1, 2)))

    def _affinity(self) -> Body:
        expressions = [{"key": "gpu", "operator": "In", "values": [self._pick(("a100", "h100"))]}]
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    def _job(self) -> Body:
        return self._some(
            parallelism=(0.25, lambda: self._pick((1, 2, 4))),
            completions=(0.15, lambda: self._pick((1, 2, 4))),
            backoffLimit=(0.2, lambda: self._pick((0, 3))),
            activeDeadlineSeconds=(0.1, lambda: 3600),
            ttlSecondsAfterFinished=(0.05, lambda: 60),
        )

    def _jobset(self, jobs: list[Body]) -> Body:
        waits = any("dependsOn" in job for job in jobs)
        fields = self._some(
            network=(0.2, lambda: {"enableDNSHostnames": True, **self._some(subdomain=(0.3, lambda: "ring"))}),
            failurePolicy=(0.2, lambda: {"maxRestarts": self._pick((0, 3))}),
            ttlSecondsAfterFinished=(0.1, lambda: 600),
            successPolicy=(
                0.2,
                lambda: {"operator": "All", "targetReplicatedJobs": [self._pick(jobs)["name"]]},
            ),
            suspend=(0.05, lambda: True),
        )
        if not waits and self._chance(0.1):
            fields["startupPolicy"] = {"startupPolicyOrder": self._pick(("AnyOrder", "InOrder"))}
        return fields

    def _train_job(self, jobs: list[Body]) -> Body:
        names = [job["name"] for job in jobs]
        spec: Body = {}
        if self._chance(0.85) or self._framework == "flux":
            spec["trainer"] = self._trainer()
        wanted = {
            kind: self._loader()
            for kind in ("dataset", "model")
            if f"{kind}-initializer" in names and self._chance(0.7)
        }
        if wanted:
            spec["initializer"] = wanted
        if self._chance(0.4):
            spec["runtimePatches"] = self._patches(jobs)
        return spec | self._some(
            suspend=(0.3, lambda: self._chance(0.7)),
            activeDeadlineSeconds=(0.1, lambda: 86400),
            managedBy=(0.05, lambda: "trainer.kubeflow.org/trainjob-controller"),
        )

    def _trainer(self) -> Body:
        tune = self._framework == "tune"
        chance = 0.95 if self._framework == "flux" else 0.6
        fields = self._some(
            numNodes=(chance, lambda: self._pick((1, 1, 2, 3, 4, 10))),
            numProcPerNode=(0.4, lambda: self._pick((1, 2, 4))),
            resourcesPerNode=(0.5, self._resources),
            image=(0.4, lambda: "user:2"),
            env=(0.4, self._env),
        )
        if tune:
            options = [LORA, "model.quantize_base=True", "model.use_dora=True", "batch_size=4", "epochs=1"]
            fields["command"] = ["tune", "run"]
            fields["args"] = [option for option in options if self._chance(0.4)]
        else:
            fields |= self._some(
                command=(
                    0.4,
                    lambda: self._pick((["torchrun", "train.py"], ["bash", "-c", "python x.py --flag 'a b'"])),
                ),
                args=(0.3, lambda: self._pick((["--lr", "0.1"], ["a b"], []))),
            )
        return fields

    def _loader(self) -> Body:
        return self._some(
            storageUri=(0.7, lambda: self._pick(("hf://org/name", "s3://bucket/path"))),
            env=(0.5, self._env),
            secretRef=(0.4, lambda: {"name": "token"}),
        )

    def _patches(self, jobs: list[Body]) -> list[Body]:
        count = self._pick((1, 1, 1, 2, 3))
        return [self._patch(jobs, f"acme.io/manager-{number}") for number in range(count)]

    def _patch(self, jobs: list[Body], manager: str) -> Body:
        changed = self._random.sample(jobs, self._random.randint(0, min(2, len(jobs))))
        patches = [self._pod_patch(job) for job in changed]
        return patch(*patches, manager=manager, metadata=self._maybe(0.4, self._metadata))

    def _pod_patch(self, job: Body) -> Body:
        pod = job["template"]["spec"]["template"]["spec"]
        fields = self._some(
            nodeSelector=(0.3, lambda: {"zone": "c", "disk": "ssd"}),
            tolerations=(0.3, lambda: [{"key": "patched", "operator": "Exists"}]),
            serviceAccountName=(0.2, lambda: "patched"),
            imagePullSecrets=(0.15, lambda: [{"name": "other"}]),
            securityContext=(0.2, lambda: {"runAsUser": 5, "fsGroup": 7}),
            affinity=(0.15, self._affinity),
            terminationGracePeriodSeconds=(0.15, lambda: 9),
            volumes=(0.3, lambda: [{"name": "patched", "emptyDir": {"medium": "Memory"}}]),
            schedulingGates=(0.1, lambda: [{"name": "acme.io/wait"}]),
        )
        containers = [self._container_patch(entry) for entry in pod["containers"] if self._chance(0.4)]
        if containers:
            fields["containers"] = containers
        if pod.get("initContainers") and self._chance(0.5):
            fields["initContainers"] = [self._container_patch(pod["initContainers"][0], free=True)]
        return pod_patch(
            job["name"],
            metadata=self._maybe(0.3, self._metadata),
            job_metadata=self._maybe(0.15, self._metadata),
            **fields,
        )

    def _container_patch(self, entry: Body, *, free: bool = False) -> Body:
        reserved = entry["name"] in ("node", "dataset-initializer", "model-initializer") and not free
        body = {"name": entry["name"]} | self._some(
            volumeMounts=(0.5, lambda: [{"name": "patched", "mountPath": "/patched"}]),
            securityContext=(0.4, lambda: {"runAsNonRoot": True}),
        )
        if not reserved and self._chance(0.6):
            body["env"] = self._env()
        return body
