"""MPI: who is a node, what the launcher reads, the keys."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, environment, objects, only, pods, replicated_job, train_job, verdict
from tests.render.launched import launched, launcher, node
from trainyard.api import Body, TrainJob
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered

GPU = "nvidia.com/gpu"
OPEN_MPI = {
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_set_default_slots": "2",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
    "PRTE_MCA_prte_set_default_slots": "2",
    "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
    "PRTE_MCA_plm_ssh_no_tree_spawn": "true",
}
INTEL = {
    "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    "I_MPI_PERHOST": "2",
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    "I_MPI_HYDRA_BRANCH_COUNT": "1",
    "I_MPI_HYDRA_IFACE": "eth0",
}
MPICH = {
    "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
    "HYDRA_LAUNCHER": "ssh",
    "HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=10",
    "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
    "HYDRA_IFACE": "eth0",
}


def job_set(job: TrainJob, of: Any) -> Body:
    spec: Body = objects(job, of)["JobSet"]["spec"]
    return spec


def counts(job: TrainJob, of: Any) -> dict[str, int]:
    jobs = job_set(job, of)["replicatedJobs"]
    assert all(entry["template"]["spec"]["completions"] == entry["template"]["spec"]["parallelism"] for entry in jobs)
    return {entry["name"]: entry["template"]["spec"]["parallelism"] for entry in jobs}


def hosts(job: TrainJob, of: Any) -> list[str]:
    result = render(job, of, RenderContext())
    assert isinstance(result, Rendered), result
    [text] = [
        body["data"]["hostfile"]
        for body in result.objects
        if body["metadata"]["name"] == f"{job.metadata.name}-mpi-hostfile"
    ]
    return str(text).splitlines()


def main(job: TrainJob, of: Any, pod_set: str = "launcher", name: str = "node") -> Body:
    found: Body = next(entry for entry in pods(job, of)[pod_set]["spec"]["containers"] if entry["name"] == name)
    return found


@pytest.mark.parametrize(
    ("nodes", "asked", "as_node", "expected", "lines"),
    [
        (1, None, False, {"node": 1, "launcher": 1}, ["node-0-0"]),
        (4, None, False, {"node": 4, "launcher": 1}, [f"node-0-{index}" for index in range(4)]),
        (None, None, False, {"node": 1, "launcher": 1}, ["node-0-0"]),
        (4, 2, False, {"node": 2, "launcher": 1}, ["node-0-0", "node-0-1"]),
        (1, 3, True, {"node": 2, "launcher": 1}, ["node-0-0", "node-0-1", "launcher-0-0"]),
        (3, None, True, {"node": 2, "launcher": 1}, ["node-0-0", "node-0-1", "launcher-0-0"]),
        (1, 2, True, {"node": 1, "launcher": 1}, ["node-0-0", "launcher-0-0"]),
        (1, 1, True, {"launcher": 1}, ["launcher-0-0"]),
        (1, None, True, {"launcher": 1}, ["launcher-0-0"]),
        (None, None, True, {"launcher": 1}, ["launcher-0-0"]),
    ],
)
def test_num_nodes_counts_the_nodes_that_train(
    nodes: int | None, asked: int | None, as_node: bool, expected: dict[str, int], lines: list[str]
) -> None:
    job = train_job(trainer={} if asked is None else {"numNodes": asked})
    runtime = launched(nodes=nodes, runLauncherAsNode=as_node)
    assert counts(job, runtime) == expected
    assert hosts(job, runtime) == [f"job-{line}.job slots=1" for line in lines]


@pytest.mark.parametrize(
    ("own", "nodes", "asked", "expected"), [(4, 1, None, 4), (2, 4, None, 4), (4, 1, 2, 2), (1, 3, None, 3)]
)
def test_more_pods_in_the_template_of_node_are_kept_unless_the_train_job_says(
    own: int, nodes: int, asked: int | None, expected: int
) -> None:
    runtime = launched(node(job={"parallelism": own}), launcher(), nodes=nodes)
    assert counts(train_job(trainer={"numNodes": asked} if asked else {}), runtime)["node"] == expected


def test_one_node_that_is_the_launcher_leaves_nothing_that_names_the_other() -> None:
    both = ["node", "launcher"]
    policies = {
        "successPolicy": {"operator": "All", "targetReplicatedJobs": both},
        "coordinator": {"replicatedJob": "node"},
        "failurePolicy": {
            "rules": [
                {"name": "nodes", "action": "FailJobSet", "targetReplicatedJobs": ["node"]},
                {"name": "both", "action": "RestartJobSet", "targetReplicatedJobs": both},
                {"name": "all", "action": "RestartJobSet"},
            ]
        },
    }
    spec = job_set(train_job(), launched(jobset=policies, runLauncherAsNode=True))
    [job] = spec["replicatedJobs"]
    assert "dependsOn" not in job
    assert spec["successPolicy"]["targetReplicatedJobs"] == ["launcher"]
    assert "coordinator" not in spec
    assert [(rule["name"], rule.get("targetReplicatedJobs")) for rule in spec["failurePolicy"]["rules"]] == [
        ("both", ["launcher"]),
        ("all", None),
    ]


def test_a_lone_launcher_is_its_own_gang_and_launchers_that_wait_are_not_counted() -> None:
    runtime = launched(gang={"volcano": {}}, runLauncherAsNode=True)
    for asked, expected in ((1, 1), (4, 3)):
        found = objects(train_job(trainer={"numNodes": asked}), runtime)
        assert found["PodGroup"]["spec"]["minMember"] == expected


def test_the_host_file_lists_every_replica_under_the_jobs_subdomain_in_the_order_of_the_runtime() -> None:
    network = {"network": {"subdomain": "net"}}
    runtime = launched(launcher(dependsOn=[]), node(replicas=2), jobset=network, runLauncherAsNode=True)
    assert hosts(train_job(trainer={"numNodes": 3}), runtime) == [
        f"job-{host}.net slots=1" for host in ("launcher-0-0", "node-0-0", "node-0-1", "node-1-0", "node-1-1")
    ]


@pytest.mark.parametrize(
    ("implementation", "line", "variables"),
    [
        ("OpenMPI", "job-node-0-0.job slots=2", OPEN_MPI),
        ("", "job-node-0-0.job slots=2", OPEN_MPI),
        (None, "job-node-0-0.job slots=2", OPEN_MPI),
        ("Intel", "job-node-0-0.job:2", INTEL),
        ("MPICH", "job-node-0-0.job:2", MPICH),
    ],
)
def test_every_implementation_gets_its_own_variables_and_host_file(
    implementation: str | None, line: str, variables: dict[str, str]
) -> None:
    named = {} if implementation is None else {"mpiImplementation": implementation}
    runtime = launched(numProcPerNode=2, **named)
    assert hosts(train_job(), runtime) == [line]
    assert environment(main(train_job(), runtime)) == variables
    assert environment(main(train_job(), runtime, "node")) == {}


@pytest.mark.parametrize(("implementation", "name"), [("Intel", "I_MPI_HYDRA_IFACE"), ("MPICH", "HYDRA_IFACE")])
def test_no_interface_is_named_where_nodes_resolve_the_name_of_the_launcher(implementation: str, name: str) -> None:
    job = train_job(trainer={"numNodes": 2})
    assert name not in environment(main(job, launched(mpiImplementation=implementation, runLauncherAsNode=True)))
    on_the_host = launched(node(), launcher(pod={"hostNetwork": True}), mpiImplementation=implementation)
    assert name not in environment(main(job, on_the_host))
    assert environment(main(job, launched(mpiImplementation=implementation)))[name] == "eth0"


def test_intel_mpi_recognizes_a_launcher_that_is_a_node_by_its_host_name() -> None:
    runtime = launched(mpiImplementation="Intel", runLauncherAsNode=True)
    job = train_job(trainer={"numNodes": 3})
    assert hosts(job, runtime) == ["job-node-0-0.job:1", "job-node-0-1.job:1", "job-launcher-0-0:1"]
    assert environment(main(job, runtime))["I_MPI_HYDRA_BRANCH_COUNT"] == "3"


@pytest.mark.parametrize("framework", ["OpenMPI", "Intel", "MPICH"])
def test_variables_come_first_and_the_train_jobs_last(framework: str) -> None:
    jobs = node(), launcher(containers=[container("node", env=[{"name": "A", "value": "1"}])])
    job = train_job(trainer={"env": [{"name": "B", "value": "$(A)"}]})
    names = [variable["name"] for variable in main(job, launched(*jobs, mpiImplementation=framework))["env"]]
    assert names[-2:] == ["A", "B"]
    assert len(names) > 2


@pytest.mark.parametrize(("implementation", "name"), [("Intel", "I_MPI_HYDRA_IFACE"), ("MPICH", "HYDRA_IFACE")])
def test_the_interface_is_the_runtimes_or_the_train_jobs_where_they_name_one(implementation: str, name: str) -> None:
    jobs = node(), launcher(containers=[container("node", env=[{"name": name, "value": "net1"}])])
    runtime = launched(*jobs, mpiImplementation=implementation)
    assert environment(main(train_job(), runtime))[name] == "net1"
    job = train_job(trainer={"env": [{"name": name, "value": "net2"}]})
    assert environment(main(job, runtime))[name] == "net2"


@pytest.mark.parametrize(
    ("implementation", "name"),
    [
        *(("OpenMPI", name) for name in OPEN_MPI if name.startswith("OMPI")),
        ("Intel", "I_MPI_PERHOST"),
        ("MPICH", "HYDRA_HOST_FILE"),
    ],
)
def test_reserved_variables_are_refused_for_the_implementation_that_has_them(implementation: str, name: str) -> None:
    job = train_job(trainer={"env": [{"name": name, "value": "x"}]})
    finding = only(verdict(job, launched(mpiImplementation=implementation)).errors)
    assert finding.path == "spec.trainer.env"
    assert finding.message == f"must not have reserved envs, invalid envs configured: [{name}]"
    other = "MPICH" if implementation == "OpenMPI" else "OpenMPI"
    assert verdict(job, launched(mpiImplementation=other)).allowed


@pytest.mark.parametrize(
    ("policy", "trainer", "slots"),
    [
        ({}, {}, 1),
        ({"numProcPerNode": 8}, {}, 8),
        ({"numProcPerNode": 8}, {"numProcPerNode": 1, "resourcesPerNode": {"limits": {GPU: 4}}}, 1),
        ({}, {"resourcesPerNode": {"limits": {GPU: 4}}}, 4),
        ({}, {"resourcesPerNode": {"limits": {GPU: "1"}}}, 1),
        ({"numProcPerNode": 2}, {"resourcesPerNode": {"limits": {GPU: 4}}}, 2),
        ({"runLauncherAsNode": True}, {"resourcesPerNode": {"requests": {GPU: "4"}}, "numNodes": 2}, 4),
        ({"runLauncherAsNode": True}, {"resourcesPerNode": {"requests": {GPU: "4"}}, "numNodes": 1}, 4),
    ],
)
def test_slots_are_as_asked_for_or_one_for_each_gpu(policy: Body, trainer: Body, slots: int) -> None:
    job, runtime = train_job(trainer=trainer), launched(**policy)
    assert {line.partition(" ")[2] for line in hosts(job, runtime)} == {f"slots={slots}"}
    assert environment(main(job, runtime))["OMPI_MCA_orte_set_default_slots"] == str(slots)


def test_slots_come_from_the_gpus_of_the_runtime_too() -> None:
    gpus = node(containers=[container(resources={"limits": {GPU: 8}})])
    assert hosts(train_job(), launched(gpus, launcher())) == ["job-node-0-0.job slots=8"]


@pytest.mark.parametrize(
    ("of_launcher", "of_node", "slots"), [(4, 8, "4 8"), (8, 4, "8 4"), (0, 4, "1 4"), (4, 0, "4 1")]
)
def test_a_launcher_that_is_a_node_has_slots_of_its_own(of_launcher: int, of_node: int, slots: str) -> None:
    parts = (
        node(containers=[container(resources={"limits": {GPU: of_node}})]),
        launcher(containers=[container(resources={"limits": {GPU: of_launcher}})]),
    )
    job, runtime = train_job(trainer={"numNodes": 3}), launched(*parts, runLauncherAsNode=True)
    first, second = slots.split()
    assert hosts(job, runtime) == [
        *(f"job-node-0-{index}.job slots={second}" for index in range(2)),
        f"job-launcher-0-0.job slots={first}",
    ]
    assert verdict(job, runtime).warnings == ()
    assert [line.partition("slots=")[2] for line in hosts(train_job(trainer={"numProcPerNode": 2}), runtime)] == ["2"]


def test_different_slots_are_warned_about_where_the_implementation_has_one_number() -> None:
    parts = (
        node(containers=[container(resources={"limits": {GPU: 4}})]),
        launcher(containers=[container(resources={"limits": {GPU: 8}})]),
    )
    runtime = launched(*parts, runLauncherAsNode=True, mpiImplementation="Intel")
    job = train_job(trainer={"numNodes": 2})
    finding = only(verdict(job, runtime).warnings)
    assert finding.path == "spec.trainer.numProcPerNode"
    assert "node 4, launcher 8" in finding.message
    assert verdict(train_job(trainer={"numNodes": 2, "numProcPerNode": 4}), runtime).warnings == ()


@pytest.mark.parametrize(
    ("own", "image", "warned"),
    [
        ("ghcr.io/acme/mpi:1", "ghcr.io/acme/mpi:2", False),
        ("ghcr.io/acme/mpi:1", "ghcr.io/acme/mpi@sha256:0", False),
        ("localhost:5000/mpi", "localhost:5000/mpi:2", False),
        ("ghcr.io/acme/mpi:1", "ghcr.io/acme/train:1", True),
    ],
)
def test_an_image_that_may_lack_an_ssh_server_is_warned_about(own: str, image: str, warned: bool) -> None:
    runtime = launched(node(containers=[{**container(), "image": own}]), launcher())
    warnings = verdict(train_job(trainer={"image": image}), runtime).warnings
    assert [finding.path for finding in warnings] == (["spec.trainer.image"] if warned else [])


@pytest.mark.parametrize(
    ("policy", "trainer", "warned"),
    [
        ({}, {"command": ["mpirun", "python", "train.py"]}, "HF_HOME, LR"),
        ({}, {"command": ["bash", "-c", "cd /w && /usr/bin/mpiexec -x HF_HOME=/hf train"]}, "LR"),
        ({}, {"command": ["mpirun"], "args": ["-x", "LR", "--x", "HF_HOME", "train"]}, None),
        ({}, {"command": ["mpirun", "--mca", "mca_base_env_list", "LR;HF_HOME", "train"]}, None),
        ({}, {"command": ["./launch.sh"]}, None),
        ({"mpiImplementation": "Intel"}, {"command": ["mpirun", "train"]}, None),
        ({"mpiImplementation": "MPICH"}, {"command": ["mpiexec", "train"]}, None),
        ({"framework": "horovod"}, {"command": ["horovodrun", "python", "train.py"]}, None),
        ({"framework": "horovod"}, {"command": ["mpirun", "python", "train.py"]}, "HF_HOME, LR"),
        ({"runLauncherAsNode": True}, {"command": ["mpirun", "train"]}, None),
        ({"runLauncherAsNode": True}, {"command": ["mpirun", "train"], "numNodes": 2}, "HF_HOME, LR"),
    ],
)
def test_variables_that_mpirun_does_not_pass_to_other_hosts_are_warned_about(
    policy: dict[str, Any], trainer: dict[str, Any], warned: str | None
) -> None:
    env = [{"name": name, "value": "1"} for name in ("HF_HOME", "LR", "OMPI_MCA_btl")]
    warnings = verdict(train_job(trainer={**trainer, "env": env}), launched(**policy)).warnings
    assert [(finding.path, (warned or "") in finding.message) for finding in warnings] == (
        [("spec.trainer.env", True)] if warned else []
    )


def test_a_runtime_s_mpirun_passes_variables_of_the_train_job_only_with_x() -> None:
    command = [container("node", command=["mpirun", "-x", "LR", "train"])]
    env = [{"name": name, "value": "1"} for name in ("LR", "TOKEN")]
    finding = only(verdict(train_job(trainer={"env": env}), launched(node(), launcher(containers=command))).warnings)
    assert (finding.path, "TOKEN" in finding.message, "LR" in finding.message) == ("spec.trainer.env", True, False)
    assert "-x TOKEN" in finding.fix


def test_a_launcher_container_that_the_sdk_does_not_find_is_warned_about() -> None:
    runtime = launched(node(), launcher(containers=[container("launcher")]))
    finding = only(verdict(train_job(), runtime).warnings)
    assert (finding.path, "SDK" in finding.message) == ("spec.runtimeRef", True)


@pytest.mark.parametrize("word", ["auto", "cpu", "gpu"])
def test_slots_are_a_number(word: str) -> None:
    finding = only(verdict(train_job(trainer={"numProcPerNode": word}), launched()).errors)
    assert (finding.path, finding.message) == (
        "spec.trainer.numProcPerNode",
        "must have an int value for MPI TrainJob",
    )


@pytest.mark.parametrize(("as_node", "trains"), [(False, {"node"}), (True, {"node", "launcher"})])
@pytest.mark.parametrize("labelled", [True, False])
def test_what_the_train_job_asks_for_goes_to_the_nodes_that_train(
    as_node: bool, trains: set[str], labelled: bool
) -> None:
    own = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}}
    parts = (
        node(containers=[container(resources=own)]),
        launcher(ancestor="trainer" if labelled else None, containers=[container(resources=own)]),
    )
    asked = {"limits": {GPU: 4}, "requests": {"cpu": "8"}}
    job = train_job(trainer={"numNodes": 2, "resourcesPerNode": asked})
    runtime = launched(*parts, runLauncherAsNode=as_node)
    merged = {"limits": {"memory": "1Gi", GPU: 4}, "requests": {"cpu": "8"}}
    for part in ("node", "launcher"):
        assert main(job, runtime, part)["resources"] == (merged if part in trains else own)


def test_a_launcher_without_nodes_trains_itself() -> None:
    runtime = launched(launcher(dependsOn=[]))
    job = train_job(trainer={"resourcesPerNode": {"limits": {GPU: 2}}})
    assert main(job, runtime)["resources"] == {"limits": {GPU: 2}}
    assert hosts(job, runtime) == []
    assert "no replicatedJob node" in only(verdict(job, runtime).warnings).message


@pytest.mark.parametrize("as_node", [True, False])
def test_the_program_is_on_every_node_and_only_the_launcher_runs_the_command(as_node: bool) -> None:
    trainer = {
        "image": "mine",
        "command": ["mpirun"],
        "args": ["train.py"],
        "numNodes": 2,
        "env": [{"name": "A", "value": "1"}],
    }
    job, runtime = train_job(trainer=trainer), launched(runLauncherAsNode=as_node)
    starts, worker = main(job, runtime), main(job, runtime, "node")
    assert (starts["image"], starts["command"], starts["args"]) == ("mine", ["mpirun"], ["train.py"])
    assert (worker["image"], worker["command"], worker.get("args")) == ("mine", ["/usr/sbin/sshd"], None)
    assert environment(starts)["A"] == environment(worker)["A"] == "1"


@pytest.mark.parametrize("name", ["node", "launcher"])
@pytest.mark.parametrize("ancestor", ["trainer", None, "", "other"])
def test_the_launcher_needs_no_label_and_its_container_may_have_its_name(name: str, ancestor: str | None) -> None:
    runtime = launched(node(), launcher(ancestor=ancestor, containers=[container(name)]))
    job = train_job(trainer={"image": "image:mine", "command": ["mpirun"], "numNodes": 2})
    answer = verdict(job, runtime)
    unlabelled = [] if ancestor == "trainer" else ["spec.trainer.command"]
    named = [] if name == "node" else ["spec.runtimeRef"]
    assert answer.errors == ()
    assert sorted(finding.path for finding in answer.warnings) == sorted([*named, *unlabelled])
    found = main(job, runtime, name=name)
    assert (found["image"], found["command"]) == ("image:mine", ["mpirun"])
    assert "OMPI_MCA_orte_default_hostfile" in environment(found)
    assert [mount["name"] for mount in found["volumeMounts"]] == ["mpi-ssh-auth", "mpi-hostfile"]


def test_where_both_are_labelled_the_launcher_runs_the_command() -> None:
    runtime = launched(node(ancestor="trainer"), launcher(containers=[container("launcher")]), nodes=2)
    job = train_job(trainer={"command": ["mpirun"]})
    assert counts(job, runtime) == {"node": 2, "launcher": 1}
    assert main(job, runtime, name="launcher")["command"] == ["mpirun"]
    assert main(job, runtime, "node")["command"] == ["/usr/sbin/sshd"]


def test_where_only_the_nodes_are_labelled_they_take_the_trainer() -> None:
    runtime = launched(launcher(ancestor=None, dependsOn=[]), node(ancestor="trainer"), numProcPerNode=8)
    job = train_job(trainer={"image": "mine", "command": ["serve"], "numNodes": 2})
    assert counts(job, runtime) == {"launcher": 1, "node": 2}
    assert main(job, runtime, "node")["command"] == ["serve"]
    assert main(job, runtime)["image"] == "image"
    assert hosts(job, runtime) == ["job-node-0-0.job slots=8", "job-node-0-1.job slots=8"]


@pytest.mark.parametrize(
    ("path", "mode"), [("/root/.ssh", 0o600), ("/root", 0o600), ("/rooted/.ssh", 0o640), ("/home/mpiuser/.ssh", 0o640)]
)
def test_the_private_key_of_root_is_its_owners_alone_or_ssh_would_refuse_it(path: str, mode: int) -> None:
    for pod in pods(train_job(), launched(sshAuthMountPath=path)).values():
        (keys,) = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
        assert keys["items"][0] == {"key": "ssh-privatekey", "mode": mode, "path": "id_rsa"}


def test_keys_and_host_file_are_mounted_with_their_modes() -> None:
    runtime = launched(sshAuthMountPath="/home/mpiuser/.ssh")
    found = pods(train_job(), runtime)
    keys = {
        "name": "mpi-ssh-auth",
        "secret": {
            "secretName": "job-mpi-ssh-auth",
            "defaultMode": 0o400,
            "items": [
                {"key": "ssh-privatekey", "mode": 0o640, "path": "id_rsa"},
                {"key": "ssh-publickey", "mode": 0o644, "path": "id_rsa.pub"},
                {"key": "ssh-publickey", "mode": 0o644, "path": "authorized_keys"},
            ],
        },
    }
    host_file = {
        "name": "mpi-hostfile",
        "configMap": {
            "name": "job-mpi-hostfile",
            "items": [{"key": "hostfile", "mode": 0o444, "path": "hostfile"}],
        },
    }
    mounts = [
        {"name": "mpi-ssh-auth", "mountPath": "/home/mpiuser/.ssh"},
        {"name": "mpi-hostfile", "mountPath": "/etc/mpi"},
    ]
    assert found["node"]["spec"]["volumes"] == [keys]
    assert found["launcher"]["spec"]["volumes"] == [keys, host_file]
    assert found["node"]["spec"]["containers"][0]["volumeMounts"] == mounts[:1]
    assert found["launcher"]["spec"]["containers"][0]["volumeMounts"] == mounts


def test_other_containers_and_volumes_of_the_runtime_stay_as_they_are() -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "mpi-hostfile", "emptyDir": {}}]
    mounts = [{"name": "data", "mountPath": "/etc/mpi"}, {"name": "data", "mountPath": "/data"}]
    starts = launcher(
        containers=[container("node", volumeMounts=mounts), container("sidecar")], pod={"volumes": volumes}
    )
    pod = pods(train_job(), launched(node(), starts))["launcher"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["data", "mpi-hostfile", "mpi-ssh-auth"]
    assert "configMap" in pod["volumes"][1]
    assert [(mount["name"], mount["mountPath"]) for mount in pod["containers"][0]["volumeMounts"]] == [
        ("mpi-hostfile", "/etc/mpi"),
        ("data", "/data"),
        ("mpi-ssh-auth", "/root/.ssh"),
    ]
    assert pod["containers"][1] == container("sidecar")


def test_the_secret_has_the_keys_of_the_context_or_says_that_they_come_later() -> None:
    secret = objects(train_job(uid="u"), launched())["Secret"]
    assert secret["metadata"]["name"] == "job-mpi-ssh-auth"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert (secret["type"], secret["immutable"]) == ("kubernetes.io/ssh-auth", True)
    assert secret["stringData"] == {
        name: f"<{name}: generated once by the controller>" for name in ("ssh-privatekey", "ssh-publickey")
    }
    keys = {"ssh-privatekey": "private", "ssh-publickey": "public"}
    assert objects(train_job(), launched(), keys=keys)["Secret"]["stringData"] == keys
    assert "private" not in repr(RenderContext(keys=keys))


@pytest.mark.parametrize("jobs", [(node(),), (launcher(dependsOn=[]),)])
def test_more_than_one_node_needs_launcher_and_node(jobs: tuple[Body, ...]) -> None:
    runtime = launched(*jobs, runLauncherAsNode=True)
    finding = only(verdict(train_job(trainer={"numNodes": 2}), runtime).errors)
    assert finding.path == "spec.trainer.numNodes"
    assert finding.message == (
        "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and node"
    )
    assert verdict(train_job(trainer={"numNodes": 1}), runtime).allowed


@pytest.mark.parametrize("path", ["/etc/mpi", "/etc/mpi/", "/a:b"])
def test_paths_that_no_pod_can_have_are_refused(path: str) -> None:
    finding = only(verdict(train_job(), launched(sshAuthMountPath=path)).errors)
    assert finding.path == "spec.runtimeRef"
    assert repr(path) in finding.message


@pytest.mark.parametrize(
    ("jobs", "missing"),
    [
        ((node(ancestor="trainer"),), "replicatedJob launcher"),
        (
            (node(), launcher(ancestor=None, containers=[container("other")])),
            "container node in replicatedJob launcher",
        ),
        ((node(containers=[container("other")]), launcher()), "container node in replicatedJob node"),
        ((launcher(dependsOn=[]),), "replicatedJob node"),
        ((replicated_job("other"), node(), launcher()), None),
    ],
)
def test_a_runtime_in_which_nothing_can_start_is_accepted_with_a_warning(
    jobs: tuple[Body, ...], missing: str | None
) -> None:
    answer = verdict(train_job(), launched(*jobs))
    assert answer.allowed
    if missing is None:
        assert answer.warnings == ()
    else:
        assert only(answer.warnings).message.startswith(f"the runtime has no {missing}: ")
