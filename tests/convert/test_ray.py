"""Ray starts with the options of KubeRay, and entry points run as KubeRay's users wrote them."""

from __future__ import annotations

import json
import shlex
import subprocess
from subprocess import list2cmdline
from typing import Any, Final

import pytest

from tests.convert.conversions import conversion_of, main_container, own_runtime, pod_templates, replicated_jobs
from trainyard.api import Body
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.conversion import Conversion

IMAGE: Final = "rayproject/ray:2.50.0"
LIMITS: Final = {"cpu": "8", "memory": "16Gi"}


def group(container: Body | None = None, params: Body | None = None, **fields: Any) -> Body:
    pod = {"containers": [{"name": "ray", "image": IMAGE, **(container or {})}]}
    return {"rayStartParams": params or {}, "template": {"spec": pod}, **fields}


def cluster(head: Body | None = None, *workers: Body) -> Body:
    named = [{"groupName": f"g{index}", "replicas": 2, **each} for index, each in enumerate(workers)]
    return {"headGroupSpec": head or group(), "workerGroupSpecs": named}


def ray(kind: str, spec: Body, **metadata: Any) -> Body:
    about = {"name": "job", "namespace": "vision", **metadata}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": about, "spec": spec}


def job(entrypoint: str = "python train.py", head: Body | None = None, *workers: Body, **fields: Any) -> Body:
    return ray("RayJob", {"entrypoint": entrypoint, "rayClusterSpec": cluster(head, *workers), **fields})


def words_of(found: Body) -> list[str]:
    return [*found.get("command", ()), *found.get("args", ())]


def started(conversion: Conversion, name: str) -> list[str]:
    """Return the options of `ray start` as a shell reads them."""
    text = " ".join(main_container(conversion, name)["command"])
    line = next(line for line in text.splitlines() if line.strip().startswith("ray start"))
    return shlex.split(line)


def worker_options(resources: Body | None, params: Body | None = None, **fields: Any) -> list[str]:
    body = group({"resources": resources} if resources else {}, params, **fields)
    return started(conversion_of(ray("RayCluster", cluster(None, body))), "node")


def notes(conversion: Conversion) -> dict[str, str]:
    return {note.path: f"{note.message} {note.fix}" for note in conversion.notes}


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"limits": LIMITS, "requests": {"cpu": "4", "memory": "8Gi"}}, ["--memory=17179869184", "--num-cpus=8"]),
        ({"limits": {"memory": "1G"}, "requests": {"cpu": "3500m"}}, ["--memory=1000000000", "--num-cpus=4"]),
        ({"limits": {"cpu": "1500m", "amd.com/gpu": "2"}, "requests": {"cpu": "1"}}, ["--num-cpus=2", "--num-gpus=2"]),
        ({"limits": {**LIMITS, "nvidia.com/mig-1g.5gb": "3"}}, ["--num-gpus=3"]),
        ({"limits": {**LIMITS, "google.com/tpu": "4"}}, ['--resources={"TPU":4}']),
        ({"limits": {**LIMITS, "aws.amazon.com/neuroncore": "2"}}, ['--resources={"neuron_cores":2}']),
    ],
)
def test_resources_of_the_container_in_the_order_of_kuberay(resources: Body, wanted: list[str]) -> None:
    assert set(wanted) <= set(worker_options(resources))


def test_requests_of_memory_and_devices_do_not_count() -> None:
    options = worker_options({"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}})
    assert not [each for each in options if "memory" in each]


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({"num-gpus": "1"}, ["--num-gpus=1", '--resources={"TPU":4}']),
        ({"resources": "'{\"custom\": 1}'"}, ['--resources={"TPU":4,"custom":1}']),
        ({"resources": '"{\\"custom\\": 1}"'}, ['--resources={"TPU":4,"custom":1}']),
        ({"resources": "'{\"TPU\": 8}'"}, ['--resources={"TPU": 8}']),
        ({"num-cpus": "0", "no-monitor": "true", "disable-usage-stats": "false"}, ["--num-cpus=0", "--no-monitor"]),
        ({"log-color": "false", "include-log-monitor": "false"}, ["--log-color=false", "--include-log-monitor=false"]),
        ({"object-store-memory": "100", "labels": "a=b"}, ["--object-store-memory=100", "--labels=a=b"]),
    ],
)
def test_start_parameters(params: Body, wanted: list[str]) -> None:
    options = worker_options({"limits": {**LIMITS, "google.com/tpu": "4"}}, params)
    assert set(wanted) <= set(options)
    assert not [each for each in options if "usage-stats" in each]
    assert len([each for each in options if each.startswith("--resources")]) == 1


def test_resources_and_labels_of_a_group_count_over_its_start_parameters() -> None:
    fields = {"resources": {"CPU": "2", "memory": "1Gi", "custom": "3"}, "labels": {"zone": "b", "tier": "spot"}}
    body = ray("RayCluster", cluster(None, group({"resources": {"limits": LIMITS}}, {"num-cpus": "7"}, **fields)))
    conversion = conversion_of(body)
    options = started(conversion, "node")
    wanted = {"--num-cpus=2", "--memory=1073741824", '--resources={"custom":3}', "--labels=tier=spot,zone=b"}
    assert wanted <= set(options)
    labels = pod_templates(conversion)["node"]["metadata"]["labels"]
    assert labels.items() >= {"zone": "b", "tier": "spot"}.items()
    assert not conversion.lost


@pytest.mark.parametrize(("params", "option"), [({}, "8080"), ({"metrics-export-port": "9090"}, "9090")])
@pytest.mark.parametrize("port", [8080, 9090])
def test_metrics_are_where_kuberay_exports_them(params: Body, option: str, port: int) -> None:
    own = [{"name": "metrics", "containerPort": port}]
    body = group({} if port == 8080 else {"ports": own}, params)
    conversion = conversion_of(ray("RayCluster", cluster(body, body)))
    for name in ("head", "node"):
        assert f"--metrics-export-port={option}" in started(conversion, name)
        assert main_container(conversion, name)["ports"] == own


def test_the_port_of_metrics_is_declared_once() -> None:
    own = [{"name": "web", "containerPort": 8080}]
    conversion = conversion_of(ray("RayCluster", cluster(group({"ports": own}), group({}))))
    assert main_container(conversion, "head")["ports"] == own
    assert "port 8080 keeps its name" in " ".join(each.message for each in conversion.notes)


def test_an_address_of_the_old_cluster_is_not_joined() -> None:
    options = worker_options({"limits": LIMITS}, {"address": "job-head-svc:6379"})
    assert [each for each in options if each.startswith("--address")] == ["--address=$RAY_ADDRESS"]


def test_a_container_that_starts_ray_itself_is_left_alone() -> None:
    words = ["/bin/bash", "-c", "ray start --address=$RAY_ADDRESS --num-cpus=1 --block"]
    conversion = conversion_of(
        ray("RayCluster", cluster(None, group({"command": words, "resources": {"limits": LIMITS}})))
    )
    assert main_container(conversion, "node")["command"] == words


def test_the_generated_command_stands_where_the_job_names_it() -> None:
    words = ["/bin/bash", "-c", "ulimit -n 65536; $KUBERAY_GEN_RAY_START_CMD"]
    body = ray(
        "RayCluster",
        cluster(group({"command": words}), group({"command": words, "resources": {"limits": LIMITS}})),
        annotations={"ray.io/overwrite-container-cmd": "true"},
    )
    conversion = conversion_of(body)
    assert "ulimit -n 65536; ray start --head" in main_container(conversion, "head")["command"][2]
    text = main_container(conversion, "node")["command"][2]
    assert text.startswith("ulimit -n 65536; ray start --address=")
    assert "--num-cpus=8" in text
    assert "--block" in text


def test_variables_of_kuberay_are_given_to_workers_and_init_containers() -> None:
    waiting = {"name": "wait", "image": IMAGE}
    worker = group({"command": ["python", "agent.py"]})
    worker["template"]["spec"]["initContainers"] = [waiting]
    conversion = conversion_of(ray("RayCluster", cluster(group(), worker, group())))
    host = "job-head-0-0.job"
    for name in ("node", "g1"):
        variables = {each["name"]: each.get("value") for each in main_container(conversion, name)["env"]}
        assert variables["FQ_RAY_IP"] == variables["RAY_IP"] == host
    (found,) = pod_templates(conversion)["node"]["spec"]["initContainers"]
    assert {each["name"]: each["value"] for each in found["env"]} == {"FQ_RAY_IP": host, "RAY_IP": host}
    variables = {each["name"]: each.get("value") for each in main_container(conversion, "g1")["env"]}
    assert variables["RAY_ADDRESS"] == f"{host}:6379"


SCRIPTS: Final = [
    "echo one && echo two",
    "echo 'two words' \"three little words\"; true",
    "echo $HOME `echo x` \"$(echo y)\" '$HOME'",
    "echo a;echo b",
    "set -e\necho one\necho 'two'\n",
    "python3 -c 'print(\"a\\\\nb\")'",
    "echo 100% #comment",
    "echo|cat",
]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("join", [shlex.join, list2cmdline])
def test_an_entry_point_runs_as_one_script_whatever_joins_its_words(script: str, join: Any) -> None:
    arguments = words_of(main_container(conversion_of(job(script, None, group(), entrypointNumCpus=1)), "head"))
    words = arguments[arguments.index("--") + 1 :]
    found = subprocess.run(join(words), shell=True, capture_output=True, check=False, text=True, timeout=20)
    wanted = subprocess.run(["bash", "-c", script], capture_output=True, check=False, text=True, timeout=20)
    assert (found.stdout, found.returncode) == (wanted.stdout, wanted.returncode)


def test_a_plain_entry_point_stays_legible() -> None:
    arguments = words_of(
        main_container(conversion_of(job("python tune.py --name x", None, group(), jobId="a")), "head")
    )
    assert arguments[-3:] == ["/bin/bash", "-c", "python tune.py --name x"]


def test_a_driver_that_fails_is_not_run_again_unless_the_job_says_so() -> None:
    conversion = conversion_of(job("python train.py", None, group(), backoffLimit=0))
    head = replicated_jobs(conversion)["head"]["template"]["spec"]
    assert head["backoffLimit"] == 0
    assert head["template"]["spec"]["restartPolicy"] == "Never"


def test_a_restart_policy_of_the_drivers_pod_is_said_to_change() -> None:
    head = group()
    head["template"]["spec"]["restartPolicy"] = "Always"
    path = "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy"
    assert "Never" in notes(conversion_of(job("python train.py", head, group())))[path]


def test_retries_of_the_submitter_are_said_as_they_are_done() -> None:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "s", "image": IMAGE}]}}
    body = job("python a.py", None, group(), submitterPodTemplate=pod, submitterConfig={"backoffLimit": 3})
    conversion = conversion_of(body)
    message = notes(conversion)["spec.submitterConfig.backoffLimit"]
    assert "made again" not in message
    assert "nothing is submitted twice" in message
    assert replicated_jobs(conversion)["launcher"]["template"]["spec"]["backoffLimit"] == 0
    body["spec"]["backoffLimit"] = 2
    conversion = conversion_of(body)
    assert own_runtime(conversion)["failurePolicy"]["maxRestarts"] == 2


def test_a_queue_of_kueue_and_a_submitter_name_the_fix() -> None:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "s", "image": IMAGE}]}}
    body = job("python a.py", None, group(), submitterPodTemplate=pod)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "lq"}
    losses = {note.path: note.fix for note in conversion_of(body).lost}
    assert "leave out submitterPodTemplate" in losses["spec.submitterPodTemplate"]
    del body["spec"]["submitterPodTemplate"]
    assert not conversion_of(body).lost


def test_json_of_the_runtime_environment_is_still_one_word() -> None:
    environment = 'env_vars: {A: "it\'s"}'
    arguments = words_of(main_container(conversion_of(job("a", None, group(), runtimeEnvYAML=environment)), "head"))
    (option,) = [each for each in arguments if each.startswith("--runtime-env-json=")]
    assert json.loads(option.partition("=")[2]) == {"env_vars": {"A": "it's"}}


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"replicas": 4, "maxReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 3, "maxReplicas": 9}, 3),
        ({"replicas": 2, "minReplicas": 0, "maxReplicas": 9}, 2),
        ({"replicas": 4, "maxReplicas": 2, "numOfHosts": 2}, 4),
    ],
)
def test_the_number_of_workers_is_within_its_bounds(fields: Body, number: int) -> None:
    conversion = conversion_of(ray("RayCluster", cluster(None, {**group(), **fields})))
    assert conversion.objects[-1]["spec"]["trainer"]["numNodes"] == number


def test_bounds_are_a_loss_only_where_the_cluster_scales() -> None:
    spec = cluster(None, {**group(), "minReplicas": 1, "maxReplicas": 9, "scaleStrategy": {"workersToDelete": ["a"]}})
    spec["autoscalerOptions"] = {"idleTimeoutSeconds": 60}
    assert not conversion_of(ray("RayCluster", spec)).lost
    spec["enableInTreeAutoscaling"] = True
    lost = {note.path for note in conversion_of(ray("RayCluster", spec)).lost}
    assert {"spec.enableInTreeAutoscaling", "spec.autoscalerOptions", "spec.workerGroupSpecs[0].maxReplicas"} <= lost


def test_an_interactive_job_without_an_entry_point_is_a_cluster() -> None:
    body = job("", None, group(), submissionMode="InteractiveMode")
    conversion = conversion_of(body)
    assert main_container(conversion, "head").get("args") is None
    assert "spec.submissionMode" in {note.path for note in conversion.lost}


def test_a_submitter_with_a_command_of_its_own_needs_no_entry_point() -> None:
    own = {"name": "s", "image": IMAGE, "command": ["./submit"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [own]}}
    conversion = conversion_of(job("", None, group(), submitterPodTemplate=pod, jobId="mine"))
    launcher = main_container(conversion, "launcher")
    assert launcher["command"] == ["./submit"]
    variables = {each["name"]: each["value"] for each in launcher["env"]}
    assert variables == {"RAY_DASHBOARD_ADDRESS": "job-head-0-0.job:8265", "RAY_JOB_SUBMISSION_ID": "mine"}


def test_labels_of_a_group_are_not_lost_where_something_names_them() -> None:
    worker = group(labels={"ray.io/market-type": "spot"})
    worker["template"]["spec"]["affinity"] = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"ray.io/market-type": "spot"}}}
            ]
        }
    }
    conversion = conversion_of(ray("RayCluster", cluster(None, worker)))
    assert not conversion.lost


def test_labels_of_the_network_topology_limit_the_gang() -> None:
    prefix = "volcano.sh/network-topology-"
    labels = {f"{prefix}mode": "hard", f"{prefix}highest-tier-allowed": "2", "ray.io/scheduler-name": "volcano"}
    conversion = conversion_of(ray("RayCluster", cluster(None, group()), labels=labels))
    wanted = {"mode": "hard", "highestTierAllowed": 2}
    assert conversion.objects[0]["spec"]["podGroupPolicy"]["volcano"]["networkTopology"] == wanted
    assert prefix not in str(conversion.objects[-1])
    assert not conversion.lost
    conversion = conversion_of(ray("RayCluster", cluster(None, group()), labels={f"{prefix}highest-tier-allowed": "2"}))
    assert conversion.objects[0]["spec"]["podGroupPolicy"] == {"volcano": {}}
    assert "no effect" in notes(conversion)[f"metadata.labels[{prefix}highest-tier-allowed]"]


@pytest.mark.parametrize(("mode", "tier"), [("firm", "1"), ("hard", "first")])
def test_labels_of_the_network_topology_are_validated(mode: str, tier: str) -> None:
    prefix = "volcano.sh/network-topology-"
    labels = {f"{prefix}mode": mode, f"{prefix}highest-tier-allowed": tier}
    with pytest.raises(TrainyardError, match="network-topology"):
        conversion_of(ray("RayCluster", cluster(None, group()), labels=labels))


def test_a_submitter_with_a_command_of_its_own_waits_for_the_head() -> None:
    """KubeRay creates the submitter when the cluster is ready; one that fails fails the job."""
    own = {"name": "s", "image": "registry.example/submitter:1", "command": ["/submitter"], "args": ["--", "a.py"]}
    setup = {"name": "setup", "image": "registry.example/setup:1"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [own], "initContainers": [setup]}}
    pods = pod_templates(conversion_of(job("", None, group(), submitterPodTemplate=pod)))["launcher"]["spec"]
    first, second = pods["initContainers"]
    assert (first["image"], second["name"]) == (IMAGE, "setup")
    assert "until ray job list" in first["command"][-1]
    assert {"name": "RAY_API_SERVER_ADDRESS", "value": "http://job-head-0-0.job:8265"} in first["env"]


def test_workers_that_came_back_without_end_have_a_limit() -> None:
    found = [each.path for each in conversion_of(job("a", None, group())).notes if "6 failures" in each.message]
    assert found == ["spec.rayClusterSpec.workerGroupSpecs[0].template.spec.restartPolicy"]


def test_a_command_that_fails_does_not_keep_ray_from_starting() -> None:
    """KubeRay joins ``COMMAND && ulimit -n 65536; ray start``: Ray starts either way."""
    head, worker = group({"command": ["mkdir /data"]}), group({"args": ["false"]})
    conversion = conversion_of(ray("RayCluster", cluster(head, worker)))
    for name, own in (("head", "mkdir /data"), ("node", "false")):
        script = main_container(conversion, name)["command"][-2]
        assert script.startswith(f"{own}\n")


def test_a_queue_and_gang_settings_on_the_pods_are_those_of_the_job() -> None:
    body = job("a", None, group())
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "g", "team": "a"}
    spec = body["spec"]["rayClusterSpec"]
    for template in (spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]):
        template["metadata"] = {"labels": dict(labels)}
    conversion = conversion_of(body)
    assert conversion.objects[-1]["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "lq"}
    assert {each["metadata"]["labels"]["team"] for each in pod_templates(conversion).values()} == {"a"}
    assert "kueue" not in json.dumps(replicated_jobs(conversion))
    for path in ("headGroupSpec", "workerGroupSpecs[0]"):
        for key in ("queue-name", "pod-group-name"):
            assert f"spec.rayClusterSpec.{path}.template.metadata.labels[kueue.x-k8s.io/{key}]" in notes(conversion)


@pytest.mark.parametrize("submits", [False, True])
def test_a_container_beside_the_driver_ends_with_it(submits: bool) -> None:
    """KubeRay ends a job with its driver, whatever else runs in the pod of the head; a Job waits for all containers."""
    head, worker = group(), group()
    for each in (head, worker):
        each["template"]["spec"]["containers"].append({"name": "logs", "image": "registry.example/logs:1"})
    fields = {"submitterPodTemplate": {"spec": {"containers": [{"name": "submit", "image": IMAGE}]}}} if submits else {}
    conversion = conversion_of(job("python train.py", head, worker, **fields))
    pod = pod_templates(conversion)["head"]["spec"]
    assert [each["name"] for each in pod["containers"]] == (["ray", "logs"] if submits else ["ray"])
    assert [each["name"] for each in pod_templates(conversion)["node"]["spec"]["containers"]] == ["node", "logs"]
    path = "spec.rayClusterSpec.headGroupSpec.template.spec.containers[1]"
    assert (path in notes(conversion)) is not submits
    if not submits:
        assert pod["initContainers"][-1] == {
            "name": "logs",
            "image": "registry.example/logs:1",
            "restartPolicy": "Always",
        }
