"""The unmodified Kubeflow SDK works against our API: what it builds is stored, admitted, rendered and read again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.compatibility import servers
from tests.compatibility.corpus.case import Body
from trainyard.api.crds import build
from trainyard.data import data_folder
from trainyard.jobs.render.rendered_documents import RenderedTrainJob, render_documents
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from trainyard.manifests.documents import objects

pytestmark = pytest.mark.cluster

sdk = pytest.importorskip("kubeflow.trainer")
options = pytest.importorskip("kubeflow.trainer.options.kubernetes")

NAMESPACE = "sdk"


@dataclass
class Platform:
    """An API server with our CRDs, and the SDK's client to it."""

    server: servers.Server
    client: Any
    runtimes: dict[str, Body]

    def stored(self, name: str) -> Body:
        """Return the TrainJob that the SDK created."""

        async def read() -> Body:
            async with self.server.client() as client:
                return await client.get(TRAIN_JOBS, name, namespace=NAMESPACE)

        return asyncio.run(read())

    def rendered(self, name: str) -> tuple[Body, RenderedTrainJob]:
        """Return a TrainJob and what we make of it."""
        job = self.stored(name)
        runtime = self.runtimes[job["spec"]["runtimeRef"]["name"]]
        answers = render_documents({"runtime": json.dumps(runtime), "job": json.dumps(job)})
        assert not answers[0].errors, answers[0].errors
        return job, answers[0]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with servers.api_server(tmp_path_factory.mktemp("sdk")) as server:
        runtimes = {body["metadata"]["name"]: body for body in [*upstream_runtimes(), *shipped_runtimes()]}
        asyncio.run(prepare(server, runtimes))
        config = sdk.KubernetesBackendConfig(config_file=str(server.kubeconfig), namespace=NAMESPACE)
        yield Platform(server, sdk.TrainerClient(backend_config=config), runtimes)


async def prepare(server: servers.Server, runtimes: dict[str, Body]) -> None:
    async with server.client() as client:
        definitions = servers.job_definitions()
        jobset = next(body for body in definitions if body["spec"]["group"] == "jobset.x-k8s.io")
        await servers.install(client, [*definitions, *build(jobset)])
        await client.apply(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, field_manager="sdk"
        )
        for body in runtimes.values():
            await client.apply(CLUSTER_TRAINING_RUNTIMES, body, field_manager="sdk")


def upstream_runtimes() -> Iterator[Body]:
    """Yield the runtimes that upstream ships."""
    folder = servers.module(servers.TRAINER_GROUP, servers.TRAINER) / "manifests/base/runtimes"
    for file in sorted(folder.rglob("*.yaml")):
        for body in yaml.safe_load_all(file.read_text()):
            if body and body.get("kind") == "ClusterTrainingRuntime":
                yield body


def shipped_runtimes() -> Iterator[Body]:
    """Yield the runtimes of our catalog."""
    for file in sorted(data_folder("runtimes").glob("*/*.yaml")):
        for body in objects(file.read_text()):
            if body and body.get("kind") == "ClusterTrainingRuntime":
                yield body


def training(epochs: int = 1) -> None:
    print("training", epochs)


def node(answer: RenderedTrainJob) -> Body:
    """Return the container that trains."""
    job_set = next(body for body in answer.objects if body["kind"] == "JobSet")
    jobs = {job["name"]: job for job in job_set["spec"]["replicatedJobs"]}
    chosen = jobs.get("launcher") or jobs["node"]
    containers = chosen["template"]["spec"]["template"]["spec"]["containers"]
    found: Body = next(entry for entry in containers if entry["name"] == "node")
    return found


def test_the_runtimes_are_listed_and_read(platform: Platform) -> None:
    listed = {runtime.name for runtime in platform.client.list_runtimes()}
    labelled = {name for name, body in platform.runtimes.items() if framework(body)}
    assert listed == labelled
    assert {"torch-distributed", "deepspeed-distributed", "torchtune-llama3.2-1b", "jax-distributed"} <= listed
    runtime = platform.client.get_runtime("torchtune-llama3.2-1b")
    assert runtime.trainer.framework == "torchtune"
    assert runtime.trainer.device_count == "2.0"


def framework(body: Body) -> str | None:
    label: str | None = body["metadata"].get("labels", {}).get("trainer.kubeflow.org/framework")
    return label


@pytest.mark.parametrize(
    "runtime",
    ["torch-distributed", "deepspeed-distributed", "mlx-distributed", "jax-distributed", "xgboost-distributed"],
)
def test_a_function_is_trained(platform: Platform, runtime: str) -> None:
    trainer = sdk.CustomTrainer(
        func=training,
        func_args={"epochs": 2},
        packages_to_install=["numpy"],
        num_nodes=2,
        resources_per_node={"cpu": 2, "gpu": 1, "memory": "4Gi"},
        env={"MODE": "test"},
    )
    name = platform.client.train(runtime=runtime, trainer=trainer)
    _, answer = platform.rendered(name)
    container = node(answer)
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert {"name": "MODE", "value": "test"} in container["env"]
    assert "training(**{'epochs': 2})" in " ".join([*container["command"], *container.get("args", ())])
    assert platform.client.get_job(name).num_nodes == 2


def test_our_own_runtime_is_trained(platform: Platform) -> None:
    name = platform.client.train(runtime="torch-distributed-1.0", trainer=sdk.CustomTrainer(func=training, num_nodes=3))
    _, answer = platform.rendered(name)
    assert {"name": "PET_NNODES", "value": "3"} in node(answer)["env"]


def test_a_container_is_trained(platform: Platform) -> None:
    trainer = sdk.CustomTrainerContainer(image="team/train:1", num_nodes=2, env={"A": "b"})
    name = platform.client.train(runtime="torch-distributed", trainer=trainer)
    _, answer = platform.rendered(name)
    assert node(answer)["image"] == "team/train:1"


def test_the_runtime_alone_is_trained(platform: Platform) -> None:
    _, answer = platform.rendered(platform.client.train(runtime="torch-distributed"))
    assert {"name": "PET_NNODES", "value": "1"} in node(answer)["env"]


def test_a_builtin_torchtune_trainer_is_trained_with_its_initializers(platform: Platform) -> None:
    config = sdk.TorchTuneConfig(
        dtype=sdk.DataType.BF16,
        batch_size=4,
        epochs=1,
        peft_config=sdk.LoraConfig(lora_rank=8, lora_alpha=16, quantize_base=False),
        dataset_preprocess_config=sdk.TorchTuneInstructDataset(source=sdk.DataFormat.PARQUET, split="train"),
        resources_per_node={"gpu": 2},
    )
    initializer = sdk.Initializer(
        dataset=sdk.HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca/data", access_token="t"),
        model=sdk.HuggingFaceModelInitializer(storage_uri="hf://meta-llama/Llama-3.2-1B-Instruct", access_token="t"),
    )
    name = platform.client.train(
        runtime="torchtune-llama3.2-1b", initializer=initializer, trainer=sdk.BuiltinTrainer(config=config)
    )
    job, answer = platform.rendered(name)
    assert job["spec"]["initializer"]["dataset"]["storageUri"] == "hf://tatsu-lab/alpaca/data"
    container = node(answer)
    assert "lora_finetune_distributed" in container["command"]
    assert "batch_size=4" in container["args"]


def test_initializers_of_s3_are_rendered(platform: Platform) -> None:
    initializer = sdk.Initializer(
        dataset=sdk.S3DatasetInitializer(storage_uri="s3://bucket/data", endpoint="https://s3.local", region="eu"),
        model=sdk.S3ModelInitializer(storage_uri="s3://bucket/model"),
    )
    config = sdk.TorchTuneConfig(batch_size=1)
    name = platform.client.train(
        runtime="torchtune-qwen2.5-1.5b", initializer=initializer, trainer=sdk.BuiltinTrainer(config=config)
    )
    _, answer = platform.rendered(name)
    job_set = next(body for body in answer.objects if body["kind"] == "JobSet")
    loader = next(job for job in job_set["spec"]["replicatedJobs"] if job["name"] == "dataset-initializer")
    variables = loader["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "STORAGE_URI", "value": "s3://bucket/data"} in variables
    assert {"name": "REGION", "value": "eu"} in variables


def patched(spec: Any) -> Any:
    """Return the SDK's patch of the pods of replicatedJob node."""
    pod = options.PodTemplatePatch(metadata={"labels": {"team": "a"}}, spec=spec)
    job = options.ReplicatedJobPatch("node", options.JobTemplatePatch(spec=options.JobSpecPatch(template=pod)))
    template = options.JobSetTemplatePatch(spec=options.JobSetSpecPatch(replicated_jobs=[job]))
    return options.RuntimePatch(options.TrainingRuntimeSpecPatch(template))


OPTIONS: dict[str, tuple[Callable[[], list[Any]], Callable[[Body], bool]]] = {
    "metadata": (
        lambda: [options.Labels({"a": "b"}), options.Annotations({"c": "d"})],
        lambda job: job["metadata"]["labels"] == {"a": "b"} and job["metadata"]["annotations"] == {"c": "d"},
    ),
    "deadline": (
        lambda: [options.ActiveDeadlineSeconds(60)],
        lambda job: bool(job["spec"]["activeDeadlineSeconds"] == 60),
    ),
    "patch": (
        lambda: [
            patched(
                options.PodSpecPatch(
                    service_account_name="runner",
                    node_selector={"zone": "a"},
                    tolerations=[{"key": "gpu", "operator": "Exists"}],
                    volumes=[{"name": "scratch", "emptyDir": {}}],
                    containers=[
                        options.ContainerPatch(
                            "node",
                            volume_mounts=[{"name": "scratch", "mountPath": "/scratch"}],
                            security_context={"runAsNonRoot": True},
                        )
                    ],
                )
            )
        ],
        lambda job: bool(job["spec"]["runtimePatches"][0]["manager"] == "trainer.kubeflow.org/kubeflow-sdk"),
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_kept_and_rendered(platform: Platform, name: str) -> None:
    given, holds = OPTIONS[name]
    trainer = sdk.CustomTrainer(func=training, num_nodes=2)
    job, answer = platform.rendered(
        platform.client.train(runtime="torch-distributed", trainer=trainer, options=given())
    )
    assert holds(job)
    if name == "patch":
        assert {"name": "scratch", "mountPath": "/scratch"} in node(answer)["volumeMounts"]


def test_the_command_of_a_container_can_be_given(platform: Platform) -> None:
    trainer = sdk.CustomTrainerContainer(image="team/train:1")
    given = [options.TrainerCommand(["torchrun", "train.py"]), options.TrainerArgs(["--epochs", "3"])]
    _, answer = platform.rendered(platform.client.train(runtime="torch-distributed", trainer=trainer, options=given))
    assert (node(answer)["command"], node(answer)["args"]) == (["torchrun", "train.py"], ["--epochs", "3"])


def test_jobs_are_listed_and_deleted(platform: Platform) -> None:
    name = platform.client.train(runtime="torch-distributed", trainer=sdk.CustomTrainer(func=training))
    listed = {job.name: job for job in platform.client.list_jobs()}
    assert listed[name].runtime.name == "torch-distributed"
    platform.client.delete_job(name)
    assert name not in {job.name for job in platform.client.list_jobs()}
