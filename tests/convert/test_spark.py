"""Pods of Spark applications are sized and numbered as the operator and Spark on Kubernetes size them."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from tests.convert.conversions import conversion_of, main_container, own_runtime, pod_templates, replicated_jobs
from trainyard.api import Body
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.conversion import Conversion

JAR: Final = "local:///opt/app/app.jar"
PYTHON: Final = "local:///opt/app/app.py"


def application(conf: Body | None = None, file: str = JAR, **fields: Any) -> Body:
    spec = {"type": "Scala", "image": "registry.example/spark:3.5.4", "mainApplicationFile": file}
    fields = {"driver": {}, "executor": {}, **fields}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "app", "namespace": "vision"},
        "spec": {**spec, **({"sparkConf": conf} if conf else {}), **fields},
    }


def memory(conversion: Conversion, role: str) -> str:
    resources = main_container(conversion, role)["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    return str(resources["limits"]["memory"])


def mib(number: int) -> str:
    return f"{number // 1024}Gi" if number % 1024 == 0 else f"{number}Mi"


def losses(conversion: Conversion) -> dict[str, str]:
    return {note.path: note.message for note in conversion.lost}


def notes(conversion: Conversion) -> dict[str, str]:
    return {note.path: note.message for note in conversion.notes}


def conf_path(key: str) -> str:
    return f"spec.sparkConf[{key}]"


@pytest.mark.parametrize(
    ("conf", "fields", "file", "driver", "executor"),
    [
        ({}, {}, JAR, 1024 + 384, 1024 + 384),
        ({"spark.executor.memory": "8g"}, {}, JAR, 1408, 8192 + 819),
        ({"spark.executor.memory": "8g"}, {"executor": {"memory": "2g"}}, JAR, 1408, 2048 + 384),
        ({"spark.executor.memory": "8192"}, {}, JAR, 1408, 8192 + 819),
        ({"spark.executor.memory": "8GB"}, {}, JAR, 1408, 8192 + 819),
        ({"spark.executor.memory": "10g"}, {}, PYTHON, 1024 + 409, 10240 + 4096),
        ({"spark.executor.memory": "8g", "spark.executor.memoryOverhead": "2g"}, {}, JAR, 1408, 10240),
        ({"spark.executor.memoryOverhead": "2g"}, {"executor": {"memoryOverhead": "512m"}}, JAR, 1408, 1536),
        ({"spark.executor.memory": "8g", "spark.executor.memoryOverheadFactor": "0.5"}, {}, JAR, 1408, 12288),
        ({"spark.driver.memory": "4g", "spark.driver.memoryOverheadFactor": "0.5"}, {}, JAR, 6144, 1408),
        ({"spark.kubernetes.memoryOverheadFactor": "0.5"}, {"memoryOverheadFactor": "0.75"}, JAR, 1536, 1536),
        ({}, {"memoryOverheadFactor": "0.75"}, PYTHON, 1792, 1792),
        ({"spark.executor.memoryOverheadFactor": "1"}, {"memoryOverheadFactor": "0.75"}, JAR, 1792, 2048),
        ({"spark.driver.memoryOverhead": "1g"}, {}, JAR, 2048, 1408),
        ({"spark.executor.minMemoryOverhead": "1g"}, {}, JAR, 1408, 2048),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "4g"}, {}, JAR, 1408, 1408 + 4096),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}, {}, JAR, 1408, 2432),
        ({"spark.memory.offHeap.enabled": "false", "spark.memory.offHeap.size": "4g"}, {}, JAR, 1408, 1408),
        ({"spark.memory.offHeap.size": "4g"}, {}, JAR, 1408, 1408),
        ({"spark.executor.pyspark.memory": "2g"}, {}, PYTHON, 1433, 1433 + 2048),
        ({"spark.executor.pyspark.memory": "2g"}, {}, JAR, 1408, 1408),
        ({"spark.executor.memory": "1500k"}, {}, JAR, 1408, 1 + 384),
    ],
)
def test_memory(conf: Body, fields: Body, file: str, driver: int, executor: int) -> None:
    conversion = conversion_of(application(conf, file, **fields))
    assert memory(conversion, "driver") == mib(driver)
    assert memory(conversion, "executor") == mib(executor)


def test_the_memory_limit_is_in_the_notation_of_kubernetes() -> None:
    conversion = conversion_of(application(executor={"memory": "1g", "memoryLimit": "2g"}))
    resources = main_container(conversion, "executor")["resources"]
    assert resources["limits"]["memory"] == "2Gi"
    assert resources["requests"]["memory"] == "1408Mi"


@pytest.mark.parametrize(
    ("conf", "fields", "request_", "limit", "worker"),
    [
        ({}, {}, "1", None, "1"),
        ({"spark.executor.cores": "4"}, {}, "4", None, "4"),
        ({"spark.executor.cores": "4"}, {"cores": 2}, "2", None, "2"),
        ({"spark.executor.cores": "4", "spark.kubernetes.executor.request.cores": "500m"}, {}, "500m", None, "4"),
        ({"spark.kubernetes.executor.request.cores": "500m"}, {"coreRequest": "250m"}, "250m", None, "1"),
        ({"spark.kubernetes.executor.limit.cores": "8"}, {"cores": 4}, "4", "8", "4"),
        ({"spark.kubernetes.executor.limit.cores": "8"}, {"coreLimit": "6"}, "1", "6", "1"),
    ],
)
def test_cores(conf: Body, fields: Body, request_: str, limit: str | None, worker: str) -> None:
    conversion = conversion_of(application(conf, executor=fields))
    found = main_container(conversion, "executor")
    assert found["resources"]["requests"]["cpu"] == request_
    assert found["resources"]["limits"].get("cpu") == limit
    assert f"--cores={worker}" in found["args"]


def test_cores_of_the_driver() -> None:
    conf = {"spark.driver.cores": "2", "spark.kubernetes.driver.limit.cores": "3"}
    resources = main_container(conversion_of(application(conf)), "driver")["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == ("2", "3")
    conf["spark.kubernetes.driver.request.cores"] = "1500m"
    assert main_container(conversion_of(application(conf)), "driver")["resources"]["requests"]["cpu"] == "1500m"


@pytest.mark.parametrize(
    ("conf", "fields", "number"),
    [
        ({}, {}, 1),
        ({"spark.executor.instances": "6"}, {}, 6),
        ({"spark.executor.instances": "6"}, {"executor": {"instances": 3}}, 3),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "4"}, {}, 4),
        ({"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.initialExecutors": "5"}, {}, 5),
        ({"spark.dynamicAllocation.enabled": "true"}, {"executor": {"instances": 3}}, 3),
        ({"spark.dynamicAllocation.enabled": "false", "spark.dynamicAllocation.minExecutors": "4"}, {}, 1),
        ({}, {"dynamicAllocation": {"enabled": True, "initialExecutors": 7, "minExecutors": 2}}, 7),
        ({}, {"dynamicAllocation": {"enabled": True, "minExecutors": 2, "maxExecutors": 9}}, 2),
        ({"spark.dynamicAllocation.minExecutors": "8"}, {"dynamicAllocation": {"enabled": True}}, 8),
        ({"spark.dynamicAllocation.minExecutors": "8"}, {"dynamicAllocation": {"enabled": True, "minExecutors": 3}}, 3),
        ({}, {"dynamicAllocation": {"enabled": False, "minExecutors": 2}}, 1),
    ],
)
def test_number_of_executors(conf: Body, fields: Body, number: int) -> None:
    conversion = conversion_of(application(conf, **fields))
    assert replicated_jobs(conversion)["executor"]["template"]["spec"]["parallelism"] == number
    arguments = main_container(conversion, "driver")["args"]
    assert [each for each in arguments if "spark.executor.instances" in each] == [
        f"--conf=spark.executor.instances={number}"
    ]
    assert not [each for each in arguments if "dynamicAllocation" in each]


def test_dynamic_allocation_of_either_place_is_lost() -> None:
    found = losses(conversion_of(application({"spark.dynamicAllocation.enabled": "true"})))
    assert "fixed at 1" in found[conf_path("spark.dynamicAllocation.enabled")]
    fields: Body = {"dynamicAllocation": {"enabled": True, "minExecutors": 2, "maxExecutors": 9}}
    message = losses(conversion_of(application(**fields)))["spec.dynamicAllocation"]
    assert "fixed at 2, " in message
    assert "does not grow to 9" in message


def test_an_amount_of_an_unnamed_resource_is_lost() -> None:
    conversion = conversion_of(application(driver={"gpu": {"name": "", "quantity": 2}}))
    assert "no name says" in losses(conversion)["spec.driver.gpu.quantity"]


def test_workers_offer_their_gpus() -> None:
    conf = {
        "spark.executor.resource.gpu.amount": "2",
        "spark.executor.resource.gpu.vendor": "nvidia.com",
        "spark.executor.resource.gpu.discoveryScript": "/opt/getGpus.sh",
        "spark.task.resource.gpu.amount": "0.5",
    }
    conversion = conversion_of(application(conf))
    found = main_container(conversion, "executor")
    assert found["resources"]["limits"]["nvidia.com/gpu"] == found["resources"]["requests"]["nvidia.com/gpu"] == "2"
    options = next(each["value"] for each in found["env"] if each["name"] == "SPARK_WORKER_OPTS")
    assert options == (
        "-Dspark.worker.resource.gpu.amount=2 -Dspark.worker.resource.gpu.discoveryScript=/opt/getGpus.sh"
    )
    arguments = main_container(conversion, "driver")["args"]
    assert "--conf=spark.executor.resource.gpu.amount=2" in arguments
    assert "--conf=spark.task.resource.gpu.amount=0.5" in arguments
    assert not losses(conversion)


def test_options_of_workers_that_are_there_stay() -> None:
    conf = {
        "spark.executor.resource.fpga.amount": "1",
        "spark.executor.resource.fpga.vendor": "xilinx.com",
        "spark.executor.resource.fpga.discoveryScript": "/opt/find fpga.sh",
    }
    conversion = conversion_of(application(conf, executor={"envVars": {"SPARK_WORKER_OPTS": "-Dspark.a=b"}}))
    found = main_container(conversion, "executor")
    assert found["resources"]["limits"]["xilinx.com/fpga"] == "1"
    (options,) = [each["value"] for each in found["env"] if each["name"] == "SPARK_WORKER_OPTS"]
    assert options.startswith("-Dspark.a=b -Dspark.worker.resource.fpga.amount=1 ")
    assert options.endswith('"-Dspark.worker.resource.fpga.discoveryScript=/opt/find fpga.sh"')


def test_devices_of_the_driver_and_of_the_operators_field() -> None:
    conf = {"spark.driver.resource.gpu.amount": "1", "spark.driver.resource.gpu.vendor": "amd.com"}
    conversion = conversion_of(application(conf, executor={"gpu": {"name": "nvidia.com/gpu", "quantity": 4}}))
    assert main_container(conversion, "driver")["resources"]["limits"]["amd.com/gpu"] == "1"
    assert main_container(conversion, "executor")["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_devices_without_a_vendor_or_a_script_are_lost() -> None:
    key = "spark.executor.resource.gpu.amount"
    found = losses(conversion_of(application({key: "1", "spark.executor.resource.gpu.discoveryScript": "/a.sh"})))
    assert "no vendor" in found[conf_path(key)]
    found = losses(conversion_of(application({key: "1", "spark.executor.resource.gpu.vendor": "nvidia.com"})))
    assert "discovery script" in found[conf_path(key)]


def test_what_standalone_clusters_would_read_and_kubernetes_does_not_is_left_out() -> None:
    conf = {"spark.cores.max": "1", "spark.master": "yarn", "spark.driver.host": "elsewhere", "spark.ui.port": "4041"}
    conversion = conversion_of(application(conf))
    arguments = main_container(conversion, "driver")["args"]
    assert not [each for each in arguments if "elsewhere" in each or "cores.max" in each or "yarn" in each]
    assert "--conf=spark.ui.port=4041" in arguments
    assert conf.keys() <= {path.removeprefix("spec.sparkConf[").removesuffix("]") for path in notes(conversion)}


def test_settings_that_are_overridden_say_so_and_are_not_passed() -> None:
    conversion = conversion_of(application({"spark.executor.memory": "8g"}, executor={"memory": "2g"}))
    assert "spec.executor.memory counts" in notes(conversion)[conf_path("spark.executor.memory")]
    arguments = main_container(conversion, "driver")["args"]
    assert "--executor-memory=2g" in arguments
    assert not [each for each in arguments if "8g" in each]
    assert "--memory=2g" in main_container(conversion, "executor")["args"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.executor.memory", "8Gi"),
        ("spark.executor.memory", "1.5g"),
        ("spark.executor.cores", "many"),
        ("spark.executor.instances", "-1"),
        ("spark.executor.memoryOverheadFactor", "a tenth"),
        ("spark.executor.resource.gpu.amount", "1.5"),
    ],
)
def test_values_that_spark_rejects(key: str, value: str) -> None:
    with pytest.raises(TrainyardError, match=key.replace(".", r"\.")):
        conversion_of(application({key: value}))


def test_pods_settings_of_spark_conf_reach_the_pods() -> None:
    conf = {
        "spark.kubernetes.executor.label.team": "vision",
        "spark.kubernetes.executor.annotation.example.com/owner": "ada",
        "spark.kubernetes.node.selector.pool": "cpu",
        "spark.kubernetes.executor.node.selector.pool": "gpu",
        "spark.kubernetes.driverEnv.STAGE": "prod",
        "spark.executorEnv.LEVEL": "debug",
        "spark.kubernetes.executor.secretKeyRef.TOKEN": "tokens:spark",
        "spark.kubernetes.executor.secrets.keys": "/mnt/keys",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "reader",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.path": "/data",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.readOnly": "true",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.claimName": "lake",
        "spark.kubernetes.executor.scheduler.name": "volcano",
        "spark.kubernetes.executor.container.image": "registry.example/other:1",
        "spark.kubernetes.allocation.batch.size": "10",
        "spark.kubernetes.executor.podTemplateFile": "/template.yaml",
    }
    conversion = conversion_of(application(conf))
    template = pod_templates(conversion)["executor"]
    assert template["metadata"]["labels"]["team"] == "vision"
    assert template["metadata"]["annotations"] == {"example.com/owner": "ada"}
    assert template["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "lake"}} in template["spec"]["volumes"]
    found = main_container(conversion, "executor")
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in found["volumeMounts"]
    assert {"name": "keys-volume", "mountPath": "/mnt/keys"} in found["volumeMounts"]
    assert {"name": "LEVEL", "value": "debug"} in found["env"]
    reference = {"secretKeyRef": {"name": "tokens", "key": "spark"}}
    assert {"name": "TOKEN", "valueFrom": reference} in found["env"]
    assert found["image"] == "registry.example/spark:3.5.4"
    driver = pod_templates(conversion)["driver"]["spec"]
    assert driver["nodeSelector"] == {"pool": "cpu"}
    assert driver["serviceAccountName"] == "reader"
    assert {"name": "STAGE", "value": "prod"} in driver["containers"][0]["env"]
    assert set(losses(conversion)) == {conf_path("spark.kubernetes.executor.podTemplateFile")}


def test_an_image_of_spark_conf_is_used_where_no_field_names_one() -> None:
    body = application({"spark.kubernetes.container.image": "registry.example/conf:1"})
    del body["spec"]["image"]
    conversion = conversion_of(body)
    assert main_container(conversion, "driver")["image"] == "registry.example/conf:1"
    assert main_container(conversion, "executor")["image"] == "registry.example/conf:1"


def test_executors_run_as_the_account_of_the_driver_where_they_name_none() -> None:
    conversion = conversion_of(application(driver={"serviceAccount": "spark"}))
    assert pod_templates(conversion)["executor"]["spec"]["serviceAccountName"] == "spark"
    conversion = conversion_of(application(driver={"serviceAccount": "spark"}, executor={"serviceAccount": "other"}))
    assert pod_templates(conversion)["executor"]["spec"]["serviceAccountName"] == "other"


def test_labels_of_the_application_are_on_its_pods() -> None:
    body = application(executor={"labels": {"team": "own"}})
    body["metadata"]["labels"] = {"team": "vision", "app": "count", "kueue.x-k8s.io/queue-name": "lq"}
    conversion = conversion_of(body)
    assert pod_templates(conversion)["driver"]["metadata"]["labels"] == {"team": "vision", "app": "count"}
    assert pod_templates(conversion)["executor"]["metadata"]["labels"] == {"team": "own", "app": "count"}


def test_volumes_for_working_data_are_used_for_it() -> None:
    volume = {"name": "spark-local-dir-1", "emptyDir": {}}
    mount = {"name": "spark-local-dir-1", "mountPath": "/scratch"}
    conversion = conversion_of(application(volumes=[volume], executor={"volumeMounts": [mount]}))
    assert {"name": "SPARK_LOCAL_DIRS", "value": "/scratch"} in main_container(conversion, "executor")["env"]
    assert "SPARK_LOCAL_DIRS" not in str(main_container(conversion, "driver"))


@pytest.mark.parametrize("claim", ["OnDemand", "mine-OnDemand", "mine-SPARK_EXECUTOR_ID", "mine"])
def test_claims_that_spark_makes_for_each_pod_are_ephemeral_volumes(claim: str) -> None:
    prefix = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1."
    conf = {
        f"{prefix}options.claimName": claim,
        f"{prefix}options.storageClass": "fast",
        f"{prefix}options.sizeLimit": "100Gi",
        f"{prefix}mount.path": "/scratch",
        f"{prefix}mount.readOnly": "false",
    }
    conversion = conversion_of(application(sparkConf=conf))
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "100Gi"}},
    }
    volume = {"name": "spark-local-dir-1", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    assert pod_templates(conversion)["executor"]["spec"]["volumes"] == [volume]
    container = main_container(conversion, "executor")
    assert container["volumeMounts"] == [{"name": "spark-local-dir-1", "mountPath": "/scratch"}]
    assert {"name": "SPARK_LOCAL_DIRS", "value": "/scratch"} in container["env"]
    assert not losses(conversion)
    assert notes(conversion)[conf_path(f"{prefix}options.claimName")] == "ephemeral volume: each pod gets its own claim"


@pytest.mark.parametrize("missing", ["storageClass", "sizeLimit"])
@pytest.mark.parametrize("claim", ["OnDemand", "mine-SPARK_EXECUTOR_ID"])
def test_claims_that_spark_would_not_make_are_lost(missing: str, claim: str) -> None:
    prefix = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data."
    options = {"claimName": claim, "storageClass": "fast", "sizeLimit": "1Gi"}
    conf = {f"{prefix}options.{key}": value for key, value in options.items() if key != missing}
    conversion = conversion_of(application(sparkConf={**conf, f"{prefix}mount.path": "/data"}))
    assert "volumes" not in pod_templates(conversion)["executor"]["spec"]
    assert len(losses(conversion)) == 3


@pytest.mark.parametrize("name", ["annotation.prometheus.io/scrape", "label.app", "ipFamilies"])
def test_settings_of_the_drivers_service_are_said_as_those_of_its_fields(name: str) -> None:
    key = f"spark.kubernetes.driver.service.{name}"
    conversion = conversion_of(application(sparkConf={key: "x"}))
    assert notes(conversion)[conf_path(key)] == "the driver has no Service but the job's own"
    assert not losses(conversion)


def test_a_scheduler_that_places_no_gang_here_is_said_to_change() -> None:
    found = {
        note.path: note.fidelity.value for note in conversion_of(application(driver={"schedulerName": "mine"})).notes
    }
    assert found["spec.driver.schedulerName"] == "changed"
    found = {note.path: note.message for note in conversion_of(application(driver={"schedulerName": "volcano"})).notes}
    assert "podGroupPolicy.volcano" in found["spec.driver.schedulerName"]


def test_java_options_of_the_application_count_over_those_of_spark_conf() -> None:
    conf = {"spark.executor.extraJavaOptions": "-Da=conf", "spark.driver.extraJavaOptions": "-Db=conf"}
    arguments = main_container(conversion_of(application(conf, executor={"javaOptions": "-Da=own"})), "driver")["args"]
    assert [each for each in arguments if "-Da=" in each] == ["--conf=spark.executor.extraJavaOptions=-Da=own"]
    assert [each for each in arguments if "-Db=" in each] == ["--conf=spark.driver.extraJavaOptions=-Db=conf"]


def test_master_and_worker_take_little_of_the_memory_that_is_sized_without_them() -> None:
    conversion = conversion_of(application(executor={"envVars": {"SPARK_DAEMON_MEMORY": "2g"}}))
    found = {role: main_container(conversion, role)["env"] for role in ("driver", "executor")}
    sizes = {
        role: [each["value"] for each in env if each["name"] == "SPARK_DAEMON_MEMORY"] for role, env in found.items()
    }
    assert sizes == {"driver": ["256m"], "executor": ["2g"]}


def test_the_vendor_of_a_device_is_that_of_the_operators_field_where_spark_conf_names_none() -> None:
    conf = {"spark.executor.resource.gpu.amount": "1", "spark.executor.resource.gpu.discoveryScript": "/a.sh"}
    conversion = conversion_of(application(conf, executor={"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}))
    assert not losses(conversion)
    assert "-Dspark.worker.resource.gpu.amount=1" in str(main_container(conversion, "executor")["env"])


@pytest.mark.parametrize("name", ["spark-kubernetes-executor", "executor"])
def test_the_container_of_spark_in_a_template_is_found_by_its_name(name: str) -> None:
    side = {"name": "logs", "image": "registry.example/logs:1"}
    main = {"name": name, "image": "registry.example/unused:1", "workingDir": "/work"}
    template = {"spec": {"containers": [side, main]}}
    conversion = conversion_of(application(executor={"template": template}))
    found = pod_templates(conversion)["executor"]["spec"]["containers"]
    assert [each["name"] for each in found] == ["executor", "logs"]
    assert found[0]["image"] == "registry.example/spark:3.5.4"
    assert found[0]["workingDir"] == "/work"
    assert found[1] == side


@pytest.mark.parametrize(
    "path",
    [
        "spec.driver.template.fooBar",
        "spec.driver.template.spec.fooBar",
        "spec.driver.template.spec.containers[0].typo",
        "spec.driver.template.spec.containers[1].typo",
        "spec.driver.template.spec.initContainers[0].commandd",
        "spec.driver.sidecars[0].resourcez",
        "spec.driver.initContainers[0].commandd",
        "spec.driver.securityContext.typo",
        "spec.driver.tolerations[0].typo",
        "spec.driver.volumeMounts[0].typo",
        "spec.driver.env[0].typo",
        "spec.driver.envSecretKeyRefs.TOKEN.typo",
        "spec.volumes[1].typo",
    ],
)
def test_unknown_fields_of_the_pods_are_lost_by_name(path: str) -> None:
    names = ("side", "spark-kubernetes-driver", "setup", "logs", "own")
    side, main, setup, logs, own = ({"name": name, "image": "registry.example/a:1"} for name in names)
    driver = {
        "template": {"spec": {"containers": [side, main], "initContainers": [setup]}},
        "sidecars": [logs],
        "initContainers": [own],
        "securityContext": {"runAsUser": 1000},
        "tolerations": [{"operator": "Exists"}],
        "volumeMounts": [{"name": "both", "mountPath": "/both"}],
        "env": [{"name": "LEVEL", "value": "debug"}],
        "envSecretKeyRefs": {"TOKEN": {"name": "tokens", "key": "spark"}},
    }
    executor = {"volumeMounts": [{"name": "both", "mountPath": "/both"}]}
    volumes = [{"name": name, "emptyDir": {}} for name in ("unused", "both")]
    body = application(volumes=volumes, driver=driver, executor=executor)
    place: Any = body
    *steps, field = re.findall(r"\w+", path)
    for step in steps:
        place = place[int(step)] if step.isdecimal() else place[step]
    place[field] = "lost"
    conversion = conversion_of(body)
    assert [note.path for note in conversion.lost] == [path]
    assert "lost" not in str(conversion.objects)


def test_metadata_of_a_template_that_pods_do_not_keep_is_noted() -> None:
    template = {"metadata": {"name": "mine", "app": "mine", "labels": {"team": "vision"}}, "spec": {}}
    conversion = conversion_of(application(executor={"template": template}))
    assert notes(conversion)["spec.executor.template.metadata.name"] == "pods get their names and places from the Job"
    unknown = "is not a field of a pod template: left out"
    assert losses(conversion) == {"spec.executor.template.metadata.app": unknown}
    assert pod_templates(conversion)["executor"]["metadata"] == {"labels": {"team": "vision"}}


def test_pods_have_the_volumes_that_they_mount() -> None:
    """The operator adds a volume to the pods that mount it: a claim of the driver is not attached to executors."""
    volumes = [{"name": name, "emptyDir": {}} for name in ("data", "both", "init", "unused")]

    def mounts(*names: str) -> list[Body]:
        return [{"name": name, "mountPath": f"/{name}"} for name in names]

    setup = {"name": "setup", "image": "registry.example/setup:1", "volumeMounts": mounts("init")}
    driver = {"volumeMounts": mounts("data", "both"), "initContainers": [setup]}
    conversion = conversion_of(application(volumes=volumes, driver=driver, executor={"volumeMounts": mounts("both")}))
    names = {
        role: [volume["name"] for volume in pod_templates(conversion)[role]["spec"]["volumes"]]
        for role in ("driver", "executor")
    }
    assert names == {"driver": ["data", "both", "init"], "executor": ["both"]}


@pytest.mark.parametrize("place", ["driver", "sparkConf"])
def test_settings_of_another_scheduler_on_the_pods_are_said_to_change(place: str) -> None:
    key = "yunikorn.apache.org/task-groups"
    if place == "driver":
        conversion, path = (
            conversion_of(application(driver={"annotations": {key: "[]"}})),
            f"spec.driver.annotations[{key}]",
        )
    else:
        setting = f"spark.kubernetes.driver.annotation.{key}"
        conversion, path = conversion_of(application({setting: "[]"})), f"spec.sparkConf[{setting}]"
    assert key not in str(replicated_jobs(conversion)["driver"])
    found = [each for each in conversion.notes if each.path == path]
    assert [each.message for each in found] == ["the TrainJob's own PodGroup"]


@pytest.mark.parametrize(
    ("policy", "fields", "restarts"),
    [
        ({"type": "OnFailure", "onFailureRetries": 2}, {}, 2),
        ({"type": "OnFailure"}, {}, 0),
        ({"type": "OnFailure"}, {"failureRetries": 4}, 0),
        ({"type": "Always"}, {}, 3),
        ({"type": "Never"}, {}, 0),
    ],
)
def test_an_application_is_restarted_as_often_as_the_operator_does(policy: Body, fields: Body, restarts: int) -> None:
    """The operator reads onFailureRetries alone, and restarts nothing without it."""
    conversion = conversion_of(application(restartPolicy=policy, **fields))
    found = own_runtime(conversion).get("failurePolicy", {"maxRestarts": 0})
    assert found["maxRestarts"] == restarts
    lost = losses(conversion)
    assert ("3 restarts after failures" in lost.get("spec.restartPolicy.type", "")) == (policy["type"] == "Always")


def test_a_container_beside_the_driver_ends_with_it() -> None:
    """The operator ends an application with the driver's container, whatever else runs in its pod."""
    logs = {"name": "logs", "image": "registry.example/logs:1"}
    both = {"sidecars": [logs], "initContainers": [{"name": "wait", "image": "registry.example/a:1"}]}
    template = {"spec": {"containers": [{"name": "mesh", "image": "registry.example/mesh:1"}, {"name": "driver"}]}}
    template["spec"]["containers"].reverse()
    conversion = conversion_of(application(driver={**both, "template": template}, executor=both))
    pods = {name: template["spec"] for name, template in pod_templates(conversion).items()}
    assert [each["name"] for each in pods["driver"]["containers"]] == ["node"]
    assert [each["name"] for each in pods["driver"]["initContainers"]] == ["wait", "mesh", "logs"]
    assert [each.get("restartPolicy") for each in pods["driver"]["initContainers"]] == [None, "Always", "Always"]
    assert [each["name"] for each in pods["executor"]["containers"]] == ["executor", "logs"]
    said = notes(conversion)
    assert "ends with the driver" in said["spec.driver.sidecars"]
    assert "ends with the driver" in said["spec.driver.template.spec.containers[1]"]


def test_executors_that_came_back_have_a_limit() -> None:
    """Spark makes lost executors again: without end up to 3.4, then up to spark.executor.maxNumFailures."""
    found = [each.path for each in conversion_of(application()).notes if "6 failures" in each.message]
    assert found == ["spec.executor"]
    conversion = conversion_of(application({"spark.executor.maxNumFailures": "40"}))
    assert not [each for each in conversion.notes if "6 failures" in each.message]
    assert replicated_jobs(conversion)["executor"]["template"]["spec"]["backoffLimit"] == 40
    assert "maxNumFailures" not in str(main_container(conversion, "driver"))
    assert notes(conversion)[conf_path("spark.executor.maxNumFailures")] == "backoffLimit of the Job"
