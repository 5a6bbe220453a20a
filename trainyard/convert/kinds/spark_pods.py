"""Pods of a Spark driver or executor: the operator's fields converted to a pod template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Any, Final

from trainyard import quantity
from trainyard.api import Body
from trainyard.convert.draft import Draft
from trainyard.convert.part import Part, read_part
from trainyard.convert.source import Source, shown
from trainyard.render.pod_editing import copied, upsert_env, upsert_mount, upsert_volume

__all__ = ["CORE_DEFAULT", "memory_of", "read_pod"]

CORE_DEFAULT: Final = 1
_MEMORY_DEFAULT: Final = "1g"
_UNITS: Final = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_AMOUNT: Final = re.compile(r"(\d+)([bkmgtp]?)b?", re.IGNORECASE)
_LEAST_OVERHEAD: Final = 384 * 2**20
_FACTORS: Final = {"Java": Fraction(1, 10), "Scala": Fraction(1, 10)}
_FACTOR_DEFAULT: Final = Fraction(2, 5)
_POD_FIELDS: Final = {
    "affinity": "affinity",
    "tolerations": "tolerations",
    "podSecurityContext": "securityContext",
    "schedulerName": "schedulerName",
    "hostNetwork": "hostNetwork",
    "nodeSelector": "nodeSelector",
    "dnsConfig": "dnsConfig",
    "terminationGracePeriodSeconds": "terminationGracePeriodSeconds",
    "serviceAccount": "serviceAccountName",
    "hostAliases": "hostAliases",
    "shareProcessNamespace": "shareProcessNamespace",
    "initContainers": "initContainers",
    "priorityClassName": "priorityClassName",
}
_CONTAINER_FIELDS: Final = ("envFrom", "securityContext", "lifecycle", "ports", "volumeMounts")
_WITHOUT: Final = {
    "podName": ("pods get their names from the Job", "find the driver by its host name"),
    "kubernetesMaster": ("the driver makes no pods", "leave it out"),
    "serviceAnnotations": ("the driver has no Service but the job's own", "make a Service for it"),
    "serviceLabels": ("the driver has no Service but the job's own", "make a Service for it"),
    "deleteOnTermination": ("pods stay until the TrainJob is deleted", "leave it out"),
}
_SECRET_VARIABLES: Final = {
    "GCPServiceAccount": ("GOOGLE_APPLICATION_CREDENTIALS", "key.json"),
    "HadoopDelegationToken": ("HADOOP_TOKEN_FILE_LOCATION", "hadoop.token"),
}
_CONFIG_MAPS: Final = {
    "sparkConfigMap": ("spark-config", "/etc/spark/conf", "SPARK_CONF_DIR"),
    "hadoopConfigMap": ("hadoop-config", "/etc/hadoop/conf", "HADOOP_CONF_DIR"),
}


def read_pod(draft: Draft, path: str, name: str, pods: int) -> Part:
    """Read the pod of the driver or of the executors."""
    source = draft.source
    source.keys(path)
    container: Body = {"name": name, **_image(source, path)}
    template = copied(source.mapping(f"{path}.template")) or {}
    if template:
        source.changed(f"{path}.template", "the pods' template, under the application's own fields")
    pod = template.setdefault("spec", {})
    if not isinstance(pod, dict) or not isinstance(template.get("metadata", {}), dict):
        raise source.malformed(f"{path}.template", "is no pod template")
    _pod_fields(source, path, pod)
    _metadata(source, path, template)
    own = pod.get("containers") or [{"name": name}]
    if not isinstance(own, list) or not isinstance(own[0], dict):
        raise source.malformed(f"{path}.template.spec.containers", "must be a list of objects")
    pod["containers"] = [{**own[0], **container}, *own[1:], *source.items(f"{path}.sidecars")]
    source.same(f"{path}.sidecars", "containers of the pods")
    part = _checked(source, path, name, pods, template)
    _resources(source, path, part.container)
    for field in _CONTAINER_FIELDS:
        value = source.take(f"{path}.{field}")
        if value is not None:
            part.container[field] = copied(value)
            source.same(f"{path}.{field}", f"{field} of the container")
    part = _checked(source, path, name, pods, part.template)
    upsert_env(part.container, _variables(source, path))
    _volumes(source, path, part)
    for field, (message, fix) in _WITHOUT.items():
        source.changed(f"{path}.{field}", message, fix)
    draft.parts.append(_checked(source, path, name, pods, part.template))
    return draft.parts[-1]


def memory_of(source: Source, path: str) -> str:
    """Return the JVM memory in Spark's notation."""
    found = source.peek(f"{path}.memory")
    return found if isinstance(found, str) else _MEMORY_DEFAULT


def _checked(source: Source, path: str, name: str, pods: int, template: Body) -> Part:
    """Return a part with an assembled template, after validation."""
    built = Source({"kind": source.body.get("kind"), "metadata": source.body.get("metadata"), "template": template})
    part = read_part(built, "template", name, pods, (name,))
    part.path, part.role = f"{path}.template", path
    return part


def _image(source: Source, path: str) -> Body:
    image = source.text(f"{path}.image") or source.text("spec.image")
    source.same(f"{path}.image", "image of the container")
    source.text("spec.image")
    source.same("spec.image", "image of the containers")
    found: Body = {"image": image} if image else {}
    policy = source.text("spec.imagePullPolicy")
    if policy:
        found["imagePullPolicy"] = policy
        source.same("spec.imagePullPolicy", "imagePullPolicy of the containers")
    return found


def _pod_fields(source: Source, path: str, pod: Body) -> None:
    for field, name in _POD_FIELDS.items():
        value = source.take(f"{path}.{field}")
        if value is not None:
            pod[name] = copied(value)
            source.same(f"{path}.{field}", f"{name} of the pods")
    selector = source.texts("spec.nodeSelector")
    if selector:
        pod["nodeSelector"] = {**selector, **pod.get("nodeSelector", {})}
        source.same("spec.nodeSelector", "nodeSelector of the pods")
    secrets = source.items("spec.imagePullSecrets", str)
    if secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in secrets]
        source.same("spec.imagePullSecrets", "imagePullSecrets of the pods")
    volumes = source.items("spec.volumes")
    if volumes:
        pod["volumes"] = [*pod.get("volumes", ()), *copied(volumes)]
        source.same("spec.volumes", "volumes of the pods")


def _metadata(source: Source, path: str, template: Body) -> None:
    metadata = template.get("metadata", {})
    for kind in ("labels", "annotations"):
        entries = source.texts(f"{path}.{kind}")
        if entries:
            metadata[kind] = {**metadata.get(kind, {}), **entries}
            source.same(f"{path}.{kind}", f"{kind} of the pods")
    if metadata:
        template["metadata"] = metadata


def _resources(source: Source, path: str, container: Body) -> None:
    """Set the container's resources as Spark requests them."""
    cores = source.integer(f"{path}.cores", 1) or CORE_DEFAULT
    request = source.text(f"{path}.coreRequest") or str(cores)
    source.same(f"{path}.cores", "cores of the container")
    source.same(f"{path}.coreRequest", "cores of the container")
    whole = ceil(Fraction(_bytes(source, path) + _overhead(source, path), 2**20)) * 2**20
    memory = quantity.format(Fraction(whole), "memory")
    limits: Body = {"memory": memory}
    limit = source.text(f"{path}.coreLimit")
    if limit:
        limits["cpu"] = limit
        source.same(f"{path}.coreLimit", "limit of the container")
    limit = source.text(f"{path}.memoryLimit")
    if limit:
        limits["memory"] = limit
        source.same(f"{path}.memoryLimit", "limit of the container")
    source.changed(f"{path}.memory", "memory of the container, with Spark's overhead, and of the JVM")
    requests: Body = {"cpu": request, "memory": memory}
    device, number = source.text(f"{path}.gpu.name"), source.integer(f"{path}.gpu.quantity", 1)
    if device and number is not None:
        limits[device] = requests[device] = str(number)
        source.same(f"{path}.gpu.name", "resource of the container")
        source.changed(f"{path}.gpu.quantity", "amount of the container's resource")
    resources = container.get("resources", {})
    if not isinstance(resources, dict):
        raise source.malformed(f"{path}.template.spec.containers[0].resources", "must be an object")
    for kind, amounts in (("requests", requests), ("limits", limits)):
        resources[kind] = {**(resources.get(kind) or {}), **amounts}
    container["resources"] = resources


def _bytes(source: Source, path: str, field: str = "memory") -> int:
    text = source.text(f"{path}.{field}") or _MEMORY_DEFAULT
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise source.malformed(f"{path}.{field}", f"must be an amount such as 512m or 2g, but is {shown(text)}")
    return int(match[1]) * _UNITS[(match[2] or "m").lower()]


def _overhead(source: Source, path: str) -> int:
    if source.text(f"{path}.memoryOverhead") is not None:
        source.changed(f"{path}.memoryOverhead", "memory of the container, together with the JVM's")
        return _bytes(source, path, "memoryOverhead")
    text = source.text("spec.memoryOverheadFactor")
    factor = _FACTORS.get(str(source.peek("spec.type")), _FACTOR_DEFAULT)
    if text is not None:
        try:
            factor = Fraction(text)
        except (ValueError, ZeroDivisionError) as error:
            raise source.malformed("spec.memoryOverheadFactor", f"must be a number, but is {shown(text)}") from error
        source.changed("spec.memoryOverheadFactor", "memory of the containers, together with the JVM's")
    return max(_LEAST_OVERHEAD, ceil(_bytes(source, path) * factor))


def _variables(source: Source, path: str) -> Iterator[Body]:
    for name, value in source.texts(f"{path}.envVars").items():
        yield {"name": name, "value": value}
    source.same(f"{path}.envVars", "variables of the container")
    for name, reference in source.mapping(f"{path}.envSecretKeyRefs").items():
        if not isinstance(reference, dict) or not {"name", "key"} <= set(reference):
            raise source.malformed(f"{path}.envSecretKeyRefs", f"{name} must have name and key")
        yield {"name": name, "valueFrom": {"secretKeyRef": copied(reference)}}
    source.same(f"{path}.envSecretKeyRefs", "variables of the container")
    for index, entry in enumerate(source.items(f"{path}.env")):
        if not isinstance(entry.get("name"), str):
            raise source.malformed(f"{path}.env[{index}].name", "is missing")
        yield copied(entry)
    source.same(f"{path}.env", "variables of the container")


def _volumes(source: Source, path: str, part: Part) -> None:
    for field, (volume, folder, variable) in _CONFIG_MAPS.items():
        name = source.text(f"spec.{field}")
        if name:
            _mount(part, {"name": volume, "configMap": {"name": name}}, folder)
            upsert_env(part.container, [{"name": variable, "value": folder}])
            source.same(f"spec.{field}", "volume of the pods")
    for field, kind, key in (("configMaps", "configMap", "name"), ("secrets", "secret", "secretName")):
        for index, entry in enumerate(source.items(f"{path}.{field}")):
            name, folder = entry.get("name"), entry.get("path")
            if not isinstance(name, str) or not isinstance(folder, str):
                raise source.malformed(f"{path}.{field}[{index}]", "must have name and path")
            _mount(part, {"name": f"{name}-volume", kind: {key: name}}, folder)
            upsert_env(part.container, _secret_variables(entry, folder))
        message = "volumes of the pods, named after the object with -volume"
        source.changed(f"{path}.{field}", message)


def _secret_variables(entry: Body, folder: str) -> Iterator[Body]:
    found: Any = _SECRET_VARIABLES.get(str(entry.get("secretType")))
    if found is not None:
        yield {"name": found[0], "value": f"{folder}/{found[1]}"}


def _mount(part: Part, volume: Body, folder: str) -> None:
    upsert_volume(part.pod, volume)
    upsert_mount(part.container, {"name": volume["name"], "mountPath": folder})
