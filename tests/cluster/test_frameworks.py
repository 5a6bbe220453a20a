"""Every framework runs to completion on the whole platform, and its pods got what the framework needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.framework_cells import SCHEDULERS
from tests.cluster.framework_expectations import HOST_FILES, LAYOUTS, SHORT_LAUNCHERS, STEPS, in_gang
from tests.cluster.framework_jobs import COMPLETING, DATA, PATCHED, REFUSED, STORED, TUNE, VOLUME
from tests.cluster.framework_session import GUIDES, HELD, MADE, ended
from tests.cluster.frameworks import Run, Runs, replicated_job, true_conditions
from tests.support import LiveCluster

pytestmark = pytest.mark.cluster

RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
NAMES = [run.name for run in COMPLETING]


@pytest.fixture(scope="module")
def runs(platform: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Every TrainJob of this module after its end."""
    with ended(platform, tmp_path_factory.mktemp("frameworks")) as every:
        yield every


@pytest.mark.parametrize("name", NAMES)
def test_a_job_of_each_framework_completes(runs: Runs, name: str) -> None:
    status = runs.get("trainjob", name).get("status")
    assert "Complete" in true_conditions(runs.get("trainjob", name)), (status, runs.messages(name))


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_a_gang_that_finds_itself(runs: Runs, name: str) -> None:
    """All pods are placed by Volcano as the PodGroup of the job, and share its headless Service."""
    group, service = runs.get("podgroup", name), runs.get("service", name)
    assert service["spec"]["clusterIP"] == "None"
    counts = runs.counts(name)
    steps = [counts.pop(step) for step in ("dataset-initializer", "model-initializer") if step in counts]
    waiting = {"launcher": 1} if "launcher" in counts and "node" in counts and "ssh" in volumes(runs, name) else {}
    least = 1 if name == "elastic" else sum(counts.values()) - sum(waiting.values())
    assert group["spec"]["minMember"] == least
    assert group["spec"]["queue"] == runs.runs[name].namespace
    for pod in runs.pods(name):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert len(steps) == (2 if name == "tune" else 1 if name in STEPS else 0)


def volumes(runs: Runs, job: str) -> str:
    return " ".join(volume["name"] for pod in runs.pods(job) for volume in pod["spec"].get("volumes", ()))


def ports(container: dict[str, Any]) -> list[int]:
    return [port["containerPort"] for port in container.get("ports", ())]


def test_torch_nodes_meet_at_the_first(runs: Runs) -> None:
    env = runs.env("torch", "node")
    assert runs.counts("torch") == {"node": 2}
    assert env["PET_NNODES"] == "2"
    assert env["PET_NPROC_PER_NODE"] == "auto"
    assert env["PET_NODE_RANK"] == RANK
    assert env["PET_MASTER_ADDR"] == runs.hosts("torch")[0]
    assert env["PET_MASTER_PORT"] == "29500"
    assert list(env).index("ALL") > list(env).index("PET_NNODES")
    assert ports(runs.container("torch", "node")) == [29500]


def test_processes_asked_for_by_word_are_stored_as_a_number(runs: Runs) -> None:
    stored = runs.get("trainjob", "counted")["spec"]["trainer"]["numProcPerNode"]
    assert stored == 4
    assert runs.env("counted", "node")["PET_NPROC_PER_NODE"] == "4"


def test_overrides_of_an_older_api_reach_the_pods(runs: Runs) -> None:
    for pod in runs.pods("overridden"):
        assert pod["metadata"]["labels"][PATCHED] == "old"
        assert pod["spec"]["nodeSelector"] == {"node.kubernetes.io/instance-type": "simulated-8gpu"}
    mounts = {mount["name"]: mount["mountPath"] for mount in runs.container("overridden", "node")["volumeMounts"]}
    assert mounts.items() >= {"shared-memory": "/dev/shm", "scratch": "/scratch"}.items()


def test_an_elastic_job_ends_with_its_first_node_though_its_queue_has_room_for_one(runs: Runs) -> None:
    env = runs.env("elastic", "node")
    assert env["PET_NNODES"] == "1:4"
    assert env["PET_RDZV_BACKEND"] == "c10d"
    assert env["PET_RDZV_ENDPOINT"] == f"{runs.hosts('elastic')[0]}:29500"
    assert env["PET_RDZV_ID"] == "elastic"
    assert env["PET_MAX_RESTARTS"] == "10"
    assert runs.counts("elastic")["node"] == 4
    job = replicated_job({"spec": {"template": runs.get("jobset", "elastic")}}, "node")["template"]["spec"]
    assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert job["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    assert runs.get("jobset", "elastic")["spec"]["failurePolicy"]["maxRestarts"] == 10


def test_torchtune_starts_after_both_initializers(runs: Runs) -> None:
    assert runs.counts("tune") == {"dataset-initializer": 1, "model-initializer": 1, "node": 1}
    container = runs.container("tune", "node")
    recipe = ["full_finetune_distributed", "--config", "llama3_2/1B_full"]
    command = [*container["command"], *container["args"]]
    assert command[:2] == ["tune", "run"]
    assert command[2] == f"--rdzv_endpoint={runs.hosts('tune', 'node')[0]}:29500"
    assert command[3:6] == recipe
    assert {"checkpointer.checkpoint_dir=/workspace/model", "output_dir=/workspace/output"} < set(command)
    assert command[-2:] == TUNE["args"]
    assert runs.env("tune", "node")["PET_NPROC_PER_NODE"] == "auto"
    (trainer,) = runs.pods("tune", "node")
    for kind in ("dataset", "model"):
        step = f"{kind}-initializer"
        assert runs.env("tune", step, step)["STORAGE_URI"] == DATA[kind]["storageUri"]
        (pod,) = runs.pods("tune", step)
        assert pod["status"]["phase"] == "Succeeded"
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        assert trainer["metadata"]["creationTimestamp"] >= ended
    claims = {volume["name"]: volume for volume in trainer["spec"]["volumes"]}
    assert claims["initializer"]["persistentVolumeClaim"]["claimName"] == "initializer-tune"
    assert runs.get("persistentvolumeclaim", "initializer-tune")["spec"]["accessModes"] == ["ReadWriteOnce"]


@pytest.mark.parametrize("name", HOST_FILES)
def test_a_launcher_has_keys_and_the_hosts_that_train(runs: Runs, name: str) -> None:
    variable, line, parts = HOST_FILES[name]
    asked = runs.runs[name].nodes or 1
    counts = {"launcher": 1, "node": asked - ("launcher" in parts)}
    assert runs.counts(name) == {part: count for part, count in counts.items() if count}
    assert runs.env(name, "launcher")[variable] == "/etc/mpi/hostfile"
    text = runs.get("configmap", f"{name}-mpi-hostfile")["data"]["hostfile"]
    hosts = [
        host.partition(".")[0] if part == "launcher" and name in SHORT_LAUNCHERS else host
        for part in parts
        for host in runs.hosts(name, part)
    ]
    assert sorted(text.splitlines()) == sorted(line.format(host) for host in hosts)
    secret = runs.get("secret", f"{name}-mpi-ssh-auth")
    assert secret["type"] == "kubernetes.io/ssh-auth"
    assert secret["immutable"] is True
    assert sorted(secret["data"]) == ["ssh-privatekey", "ssh-publickey"]
    keys = "/root/.ssh" if name == "horovod" else "/home/mpiuser/.ssh"
    for part in runs.counts(name):
        mounts = {mount["mountPath"]: mount["name"] for mount in runs.container(name, part)["volumeMounts"]}
        assert mounts[keys] == "mpi-ssh-auth"
        assert ("/etc/mpi" in mounts) == (part == "launcher")
        gpus = runs.container(name, part)["resources"].get("limits", {}).get("nvidia.com/gpu")
        assert gpus == (str(runs.runs[name].gpus) if part in parts else None)


def test_a_launcher_starts_when_its_nodes_are_ready_and_the_job_ends_with_it(runs: Runs) -> None:
    spec = runs.get("jobset", "openmpi")["spec"]
    depends = {job["name"]: job.get("dependsOn") for job in spec["replicatedJobs"]}
    assert depends == {"node": None, "launcher": [{"name": "node", "status": "Ready"}]}
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    (launcher,) = runs.pods("openmpi", "launcher")
    for node in runs.pods("openmpi", "node"):
        assert node["metadata"]["creationTimestamp"] <= launcher["metadata"]["creationTimestamp"]
        assert node["status"]["phase"] != "Succeeded"
    alone = runs.get("jobset", "openmpi-alone")["spec"]["replicatedJobs"]
    assert [(job["name"], job.get("dependsOn")) for job in alone] == [("launcher", None)]


def test_intel_mpi_keeps_the_entry_point_of_the_runtime(runs: Runs) -> None:
    launcher = runs.container("intel", "launcher")
    assert launcher["command"] == ["/entrypoint.sh"]
    assert launcher["args"] == ["mpirun", "train"]
    assert runs.env("intel", "launcher")["I_MPI_PERHOST"] == "1"


def test_horovodrun_gets_the_number_of_processes(runs: Runs) -> None:
    assert runs.env("horovod", "launcher")["HOROVOD_NUM_PROC"] == "4"


def test_a_resumed_job_has_its_changes_and_the_keys_it_had(runs: Runs) -> None:
    for kind, name in HELD:
        after, before = runs.get(kind, name), runs.before[kind]
        assert after["data"] == before["data"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert kind != "secret" or after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    (launcher,) = runs.pods("resumed", "launcher")
    assert launcher["metadata"]["labels"][PATCHED] == "new"
    assert PATCHED not in runs.pods("resumed", "node")[0]["metadata"]["labels"]


@pytest.mark.parametrize("name", ["jax", "jax-rack"])
def test_jax_processes_meet_at_the_first(runs: Runs, name: str) -> None:
    env = runs.env(name, "node")
    assert env["JAX_NUM_PROCESSES"] == "2"
    assert env["JAX_PROCESS_ID"] == RANK
    assert env["JAX_COORDINATOR_ADDRESS"] == f"{runs.hosts(name)[0]}:29500"
    if name == "jax-rack":
        assert len({pod["spec"]["nodeName"].rpartition("-node-")[0] for pod in runs.pods(name)}) == 1


def test_xgboost_workers_find_the_tracker(runs: Runs) -> None:
    env = runs.env("xgboost", "node")
    assert env["DMLC_TRACKER_URI"] == runs.hosts("xgboost")[0]
    assert env["DMLC_TRACKER_PORT"] == "29500"
    assert env["DMLC_TASK_ID"] == RANK
    assert env["DMLC_NUM_WORKER"] == "4"


def test_flux_brokers_have_their_configuration_and_key(runs: Runs) -> None:
    (pod, _) = runs.pods("flux")
    assert [container["name"] for container in pod["spec"]["initContainers"]] == ["flux-installer"]
    assert runs.container("flux", "node")["args"] == ["python", "train.py"]
    config = runs.get("configmap", "flux-flux-entrypoint")["data"]
    assert "-N 2 -n 8 -g 1" in config["entrypoint.sh"]
    assert 'hosts = [{ host = "flux-node-0-[0-1]" }]' in config["broker.toml"]
    assert runs.hosts("flux") == ["flux-node-0-0.flux", "flux-node-0-1.flux"]
    secret = runs.get("secret", "flux-flux-curve")
    assert secret["immutable"] is True
    assert list(secret["data"]) == ["curve.cert"]


def test_tensorflow_workers_know_each_other(runs: Runs) -> None:
    env = runs.env("tensorflow", "worker")
    config = json.loads(env["TF_CONFIG"].replace("$(TF_TASK_INDEX)", "1"))
    assert config["cluster"] == {"worker": [f"{host}:2222" for host in runs.hosts("tensorflow")]}
    assert config["task"] == {"type": "worker", "index": 1}
    assert env["TF_TASK_INDEX"] == RANK
    assert ports(runs.container("tensorflow", "worker")) == [2222]


def test_tensorflow_with_servers_ends_with_its_chief(runs: Runs) -> None:
    assert runs.counts("tensorflow-ps") == {"chief": 1, "worker": 2, "ps": 1}
    for role in ("chief", "worker", "ps"):
        config = json.loads(runs.env("tensorflow-ps", role)["TF_CONFIG"].replace("$(TF_TASK_INDEX)", "0"))
        expected = {name: [f"{host}:2222" for host in runs.hosts("tensorflow-ps", name)] for name in config["cluster"]}
        assert list(expected) == ["chief", "worker", "ps"]
        assert config == {"cluster": expected, "task": {"type": role, "index": 0}}
        assert runs.container("tensorflow-ps", role)["command"] == ["python", "train.py"]
        gpus = runs.container("tensorflow-ps", role)["resources"].get("limits", {}).get("nvidia.com/gpu")
        assert gpus == ("1" if role == "worker" else None)
    policy = runs.get("jobset", "tensorflow-ps")["spec"]["successPolicy"]
    assert policy == {"operator": "All", "targetReplicatedJobs": ["chief"]}


def test_paddle_launchers_meet_at_the_first(runs: Runs) -> None:
    env = runs.env("paddle", "node")
    first, second = runs.hosts("paddle")
    assert env["PADDLE_MASTER"] == f"{first}:36543"
    assert env["PADDLE_NNODES"] == "2"
    assert env["PADDLE_NPROC_PER_NODE"] == "2"
    assert env["PADDLE_RANK"] == RANK
    assert env["POD_IP"].replace("$(PADDLE_RANK)", "1") == second


def test_paddle_with_servers_ends_with_its_workers(runs: Runs) -> None:
    assert runs.counts("paddle-ps") == {"node": 2, "ps": 1}
    for part in ("node", "ps"):
        env = runs.env("paddle-ps", part)
        assert env["PADDLE_SERVERS_ENDPOINTS"] == f"{runs.hosts('paddle-ps', 'ps')[0]}:36543"
        assert env["PADDLE_TRAINERS_ENDPOINTS"].split(",") == [f"{h}:36543" for h in runs.hosts("paddle-ps", "node")]
        own = env["POD_IP"].replace("$(PADDLE_POD_INDEX)", "0")
        assert own == runs.hosts("paddle-ps", part)[0]
        assert runs.container("paddle-ps", part)["command"] == ["python", "train.py"]
    assert [pod["status"]["phase"] for pod in runs.pods("paddle-ps", "node")] == ["Succeeded"] * 2


@pytest.mark.parametrize("name", LAYOUTS)
def test_ray_is_a_cluster_that_ends_with_its_driver(runs: Runs, name: str) -> None:
    counts, head, container, driver, nodes = LAYOUTS[name]
    assert runs.counts(name) == counts
    address = runs.hosts(name, head)[0]
    for part in counts:
        own = container if part == head else "node"
        env = runs.env(name, part, own)
        assert env["RAY_HEAD_HOST"] == address
        assert env["RAY_API_SERVER_ADDRESS"] == f"http://{address}:8265"
        submits = part == driver != head
        assert env["RAY_ADDRESS"] == (env["RAY_API_SERVER_ADDRESS"] if submits else f"{address}:6379")
        assert env["RAY_NODE_COUNT"] == str(nodes)
        gpus = runs.container(name, part, own)["resources"].get("limits", {}).get("nvidia.com/gpu")
        assert gpus == ("1" if part == "node" else None)
    assert ports(runs.container(name, head, container)) == [6379, 8265, 10001]
    program = runs.container(name, driver, container if driver == head else "node")
    assert ["python", "train.py"] in (program["command"], program.get("args"))
    spec = runs.get("jobset", name)["spec"]
    if name == "ray-together":
        job = spec["replicatedJobs"][0]["template"]["spec"]
        assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    else:
        assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": [driver]}


def test_plain_nodes_run_as_they_are(runs: Runs) -> None:
    assert runs.counts("plain") == {"node": 2}
    assert runs.container("plain", "node")["command"] == ["python", "train.py"]
    reports = {f"KUBEFLOW_TRAINER_SERVER_{what}" for what in ("URL", "CA_CERT", "TOKEN")}
    assert set(runs.env("plain", "node")) == {"JOB_COMPLETION_INDEX", *reports}


def test_spark_workers_meet_at_the_driver(runs: Runs) -> None:
    env = runs.env("spark", "node")
    assert runs.counts("spark") == {"node": 3}
    assert env["SPARK_DRIVER_HOST"].replace("$(JOB_SET)", "spark") == runs.hosts("spark")[0]
    assert env["JOB_SET"] == "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
    for pod in runs.pods("spark"):
        (container,) = pod["spec"]["containers"]
        assert "spark-submit" in container["command"][2]
        assert container["args"] == ["--name=pi", "pi.py", "10"]
        assert ports(container) == [7077, 8080]
    job = runs.get("jobset", "spark")["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}


@pytest.mark.parametrize("name", STEPS)
def test_nodes_start_when_the_data_is_on_their_volume(runs: Runs, name: str) -> None:
    kind, variables = STEPS[name]
    step = f"{kind}-initializer"
    assert runs.counts(name) == {step: 1, "node": 2}
    assert runs.env(name, step, step).items() >= variables.items()
    fetching = runs.container(name, step, step)
    secrets = [{"secretRef": STORED["secretRef"]}] if name == "dataset-s3" else None
    assert fetching.get("envFrom") == secrets
    if name == "dataset-gs":
        assert "gcloud storage rsync" in fetching["command"][-1]
    assert runs.get("persistentvolumeclaim", f"initializer-{name}")["spec"]["accessModes"] == ["ReadWriteMany"]
    (first,) = runs.pods(name, step)
    ended = first["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    for pod in [first, *runs.pods(name, "node")]:
        claims = [
            each["persistentVolumeClaim"]["claimName"]
            for each in pod["spec"]["volumes"]
            if each["name"] == "initializer"
        ]
        assert claims == [f"initializer-{name}"]
        assert {"name": "initializer", "mountPath": "/workspace"} in pod["spec"]["containers"][0]["volumeMounts"]
        assert pod is first or pod["metadata"]["creationTimestamp"] >= ended


def test_a_dataset_on_a_volume_is_mounted_for_reading(runs: Runs) -> None:
    assert runs.counts("dataset-pvc") == {"node": 2}
    for pod in runs.pods("dataset-pvc"):
        claims = [
            volume.get("persistentVolumeClaim") for volume in pod["spec"]["volumes"] if volume["name"] == "dataset"
        ]
        assert claims == [{"claimName": VOLUME, "readOnly": True}]
        mounts = pod["spec"]["containers"][0]["volumeMounts"]
        assert {"name": "dataset", "mountPath": "/workspace/dataset", "readOnly": True} in mounts


def test_a_gang_whose_scheduler_is_not_installed_is_reported_and_runs_once_it_is(runs: Runs) -> None:
    missing = "PodGroup of scheduling.x-k8s.io/v1alpha1 is not served"
    assert any(missing in message for message in runs.reported), runs.reported
    assert "Complete" in true_conditions(runs.get("trainjob", "coscheduled"))


def test_a_gang_of_kai_names_its_scheduler_and_queue(runs: Runs) -> None:
    pods = runs.pods("kai")
    assert len(pods) == 2
    for pod in pods:
        assert pod["spec"]["schedulerName"] == "kai-scheduler"
        assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "default-queue"
    assert runs.find("podgroup", "kai") is None
    assert "Complete" in true_conditions(runs.get("trainjob", "kai"))


@pytest.mark.parametrize("name", MADE)
def test_each_framework_runs_with_each_gang_scheduler_and_initializer(runs: Runs, name: str) -> None:
    """The table in docs/frameworks: the job completes, its scheduler knows the gang, data is there before training."""
    cell = MADE[name]
    status = runs.get("trainjob", name).get("status")
    assert "Complete" in true_conditions(runs.get("trainjob", name)), (status, runs.messages(name))
    pods = runs.pods(name)
    steps = [pod for pod in pods if pod["spec"]["containers"][0]["name"].endswith("-initializer")]
    training = [pod for pod in pods if pod not in steps]
    assert len(steps) == (2 if cell.initializer != "none" or cell.framework == "torchtune" else 0)
    assert len(training) >= (1 if cell.framework == "torchtune" else 2)
    for pod in pods:
        assert pod["spec"]["schedulerName"] == SCHEDULERS[cell.gang]
        assert in_gang(pod, cell) == (cell.gang == "kai" or (cell.gang != "none" and pod not in steps))
    for step in steps:
        ended = step["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        assert all(pod["metadata"]["creationTimestamp"] >= ended for pod in training)


@pytest.mark.parametrize("run", REFUSED, ids=lambda run: run.name)
def test_accelerators_are_for_volcano_only(platform: LiveCluster, runs: Runs, run: Run) -> None:
    answer = platform.apply(run.body())
    assert answer.returncode != 0
    assert "ACC-001" in answer.stderr, answer.stderr


@pytest.mark.parametrize("name", GUIDES)
def test_the_jobs_of_the_documentation_complete(runs: Runs, name: str) -> None:
    status = runs.get("trainjob", name).get("status")
    assert "Complete" in true_conditions(runs.get("trainjob", name)), (status, runs.messages(name))
