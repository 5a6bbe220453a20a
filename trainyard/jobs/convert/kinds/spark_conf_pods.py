"""Pod settings of a SparkApplication in sparkConf: ``spark.kubernetes.*`` of the driver or the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from trainyard.api import Body
from trainyard.jobs.convert.kinds.spark_settings import SparkSettings, is_true
from trainyard.jobs.convert.kinds.spark_sizes import DRIVER, EXECUTOR
from trainyard.jobs.render.pod_editing import section, upsert_env, upsert_mount, upsert_volume

LOCAL_DIRECTORY: Final = "spark-local-dir-"
"""Prefix of the volumes in which Spark keeps its working data."""
_PREFIX: Final = "spark.kubernetes."
_ROLES: Final = (DRIVER, EXECUTOR)
_METADATA: Final = {"label": "labels", "annotation": "annotations"}
_VOLUMES: Final = {
    "hostPath": ("path", "type"),
    "emptyDir": ("medium", "sizeLimit"),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
}
_PLACEHOLDERS: Final = ("OnDemand", "SPARK_EXECUTOR_ID")
"""Parts of a claim's name that Spark replaces for each pod."""
NO_SERVICE: Final = "the driver has no Service but the job's own"
_DRIVER_SERVICE: Final = "driver.service."
_POD_CREATION_SETTINGS: Final = (
    "allocation.",
    "appKillPodDeletionGracePeriod",
    "authenticate.",
    "configMap.",
    "context",
    "decommission.",
    "driver.connectionTimeout",
    "driver.master",
    "driver.ownPersistentVolumeClaim",
    "driver.pod.excludedFeatureSteps",
    "driver.pod.name",
    "driver.requestTimeout",
    "driver.reusePersistentVolumeClaim",
    "driver.waitToReusePersistentVolumeClaim",
    "dynamicAllocation.",
    "executor.apiPollingInterval",
    "executor.checkAllContainers",
    "executor.decommission",
    "executor.deleteOnTermination",
    "executor.disableConfigMap",
    "executor.enableApiPolling",
    "executor.enablePollingWithResourceVersion",
    "executor.eventProcessingInterval",
    "executor.maxNumFailures",
    "executor.missingPodDetectDelta",
    "executor.podNamePrefix",
    "executor.roll",
    "executor.scheduler.name",
    "executor.useDriverPodIP",
    "jars.",
    "namespace",
    "pyspark.pythonVersion",
    "report.",
    "submission.",
    "trust.certificates",
)
"""Settings of how Spark makes pods, and none of the pods themselves."""


def apply_conf(settings: SparkSettings, role: str, template: Body, container: Body) -> None:
    """Set what sparkConf says about a role's pods; the application's own fields are applied after it.

    Parameters
    ----------
    template
        Pod template of the role.
    container
        Its main container.
    """
    pod = template["spec"]
    for kind, target in _METADATA.items():
        entries = _entries(settings, f"{_PREFIX}{role}.{kind}.", f"{target} of the pods")
        if entries:
            section(template, "metadata", target).update(entries)
    selector: dict[str, str] = {}
    for prefix in ("", f"{role}."):
        selector |= _entries(settings, f"{_PREFIX}{prefix}node.selector.", "nodeSelector of the pods")
    if selector:
        pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **selector}
    _set(settings, (f"{role}.scheduler.name", "scheduler.name"), pod, "schedulerName")
    accounts = (f"authenticate.{role}.serviceAccountName", f"authenticate.{DRIVER}.serviceAccountName")
    if "serviceAccountName" not in pod:
        _set(settings, accounts, pod, "serviceAccountName")
    _set(settings, (f"{role}.container.image", "container.image"), container, "image")
    _set(settings, ("container.image.pullPolicy",), container, "imagePullPolicy")
    secrets = settings.of_conf(f"{_PREFIX}container.image.pullSecrets", "imagePullSecrets of the pods")
    if secrets:
        pod["imagePullSecrets"] = [{"name": name.strip()} for name in secrets.split(",") if name.strip()]
    upsert_env(container, _variables(settings, role))
    _mount_secrets(settings, role, pod, container)
    _mount_volumes(settings, role, pod, container)


def set_local_directories(pod: Body, container: Body) -> None:
    """Let Spark keep its working data in the volumes that are named for it."""
    folders = [
        str(mount["mountPath"])
        for mount in container.get("volumeMounts", ())
        if str(mount["name"]).startswith(LOCAL_DIRECTORY)
    ]
    if folders:
        upsert_env(container, [{"name": "SPARK_LOCAL_DIRS", "value": ",".join(folders)}])


def lose_rest(settings: SparkSettings) -> None:
    """Note the settings of Kubernetes that no role has read."""
    for key in sorted(settings.rest()):
        if not key.startswith(_PREFIX):
            continue
        name = key.removeprefix(_PREFIX)
        if name.startswith(_DRIVER_SERVICE):
            settings.leave_out(key, NO_SERVICE)
        elif name.startswith(_POD_CREATION_SETTINGS):
            settings.leave_out(key, "has no effect: Spark makes no pods")
        else:
            fix = "set it in the driver's or executor's own fields"
            settings.lose(key, "Spark makes no pods: those of the job are there already", fix)


def _entries(settings: SparkSettings, prefix: str, became: str) -> dict[str, str]:
    found = {}
    for name in settings.keys(prefix):
        value = settings.of_conf(f"{prefix}{name}", became)
        if name and value is not None:
            found[name] = value
    return found


def _set(settings: SparkSettings, keys: Iterable[str], target: Body, field: str) -> None:
    """Set a field from the first of some keys."""
    values = [settings.of_conf(f"{_PREFIX}{key}", f"{field} of the pods") for key in keys]
    value = next((each for each in values if each), None)
    if value is not None:
        target[field] = value


def _variables(settings: SparkSettings, role: str) -> list[Body]:
    became = "variables of the container"
    prefix = f"{_PREFIX}driverEnv." if role == DRIVER else "spark.executorEnv."
    found: list[Body] = [{"name": name, "value": value} for name, value in _entries(settings, prefix, became).items()]
    prefix = f"{_PREFIX}{role}.secretKeyRef."
    for name, value in _entries(settings, prefix, became).items():
        secret, colon, key = value.partition(":")
        if not colon:
            raise settings.malformed(f"{prefix}{name}", "must be the name of a Secret, a colon and a key")
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return found


def _mount_secrets(settings: SparkSettings, role: str, pod: Body, container: Body) -> None:
    for name, folder in _entries(settings, f"{_PREFIX}{role}.secrets.", "volume of the pods").items():
        upsert_volume(pod, {"name": f"{name}-volume", "secret": {"secretName": name}})
        upsert_mount(container, {"name": f"{name}-volume", "mountPath": folder})


def _mount_volumes(settings: SparkSettings, role: str, pod: Body, container: Body) -> None:
    prefix = f"{_PREFIX}{role}.volumes."
    volumes = dict.fromkeys(tuple(key.split(".")[:2]) for key in settings.keys(prefix) if key.count(".") >= 2)
    for kind, name in volumes:
        own = f"{prefix}{kind}.{name}."
        on_demand = kind == "persistentVolumeClaim" and _made_by_spark(settings, own)
        became = "ephemeral volume: each pod gets its own claim" if on_demand else "volume of the pods"

        def read(key: str, own: str = own, became: str = became) -> str | None:
            return settings.of_conf(f"{own}{key}", became)

        source = _claim(read) if on_demand else _source(kind, read)
        if source is None or not settings.conf.get(f"{own}mount.path"):
            fix = "make the volume, and name it in volumes and volumeMounts"
            for key in settings.keys(own):
                settings.lose(f"{own}{key}", "Spark makes no pods and no claims: this volume is not mounted", fix)
            continue
        upsert_volume(pod, {"name": name, **source})
        mount: Body = {"name": name, "mountPath": read("mount.path")}
        if is_true(read("mount.readOnly")):
            mount["readOnly"] = True
        for key in ("subPath", "subPathExpr"):
            if value := read(f"mount.{key}"):
                mount[key] = value
        upsert_mount(container, mount)


def _made_by_spark(settings: SparkSettings, volume: str) -> bool:
    """Return whether Spark makes a claim, which it does with a class and a size whatever the name."""
    name, storage_class, size = (
        settings.conf.get(f"{volume}options.{key}", "") for key in ("claimName", "storageClass", "sizeLimit")
    )
    return any(each in name for each in _PLACEHOLDERS) or bool(storage_class and size)


def _source(kind: str, read: Callable[[str], str | None]) -> Body | None:
    """Return the source of a volume, or None for a type that Spark does not know."""
    if kind not in _VOLUMES:
        return None
    found: dict[str, Any] = {name: value for name in _VOLUMES[kind] if (value := read(f"options.{name}"))}
    if kind in ("nfs", "persistentVolumeClaim") and is_true(read("options.readOnly")):
        found["readOnly"] = True
    return {kind: found}


def _claim(read: Callable[[str], str | None]) -> Body | None:
    """Return the volume of a claim that Spark makes for each pod; it makes none without a class and a size."""
    names = ("claimName", "storageClass", "sizeLimit")
    _, storage_class, size = (read(f"options.{name}") for name in names)
    if not storage_class or not size:
        return None
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
