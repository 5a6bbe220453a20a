"""Pods of a Spark driver or executor: the operator's fields converted to a pod template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainyard.api import Body
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.kinds.spark_conf_pods import NO_SERVICE, apply_conf, set_local_directories
from trainyard.jobs.convert.kinds.spark_settings import SparkSettings
from trainyard.jobs.convert.kinds.spark_sizes import DRIVER, set_resources
from trainyard.jobs.convert.operator_labels import OperatorLabels, label_part
from trainyard.jobs.convert.part import SIDECAR_MESSAGE, Part, read_part
from trainyard.jobs.convert.source import LegacySource, parts_of
from trainyard.jobs.convert.template_fields import drop_unused_fields, known_fields
from trainyard.jobs.render.pod_editing import copied, section, upsert_env, upsert_mount, upsert_volume

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
_CONTAINERS: Final = ("spark-kubernetes-driver", "spark-kubernetes-executor", "executor")
"""Names by which Spark and its operator find their container in a template; otherwise, it is the first."""
_KUEUE: Final = "kueue.x-k8s.io/"
_CONTAINER_FIELDS: Final = ("envFrom", "securityContext", "lifecycle", "ports", "volumeMounts")
_WITHOUT: Final = {
    "podName": ("pods get their names from the Job", "find the driver by its host name"),
    "kubernetesMaster": ("the driver makes no pods", "leave it out"),
    "serviceAnnotations": (NO_SERVICE, "make a Service for it"),
    "serviceLabels": (NO_SERVICE, "make a Service for it"),
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


def read_pod(draft: Draft, settings: SparkSettings, name: str, pods: int) -> Part:
    """Read the pod of the driver or of the executors, which is named after its role."""
    source, path = draft.source, f"spec.{name}"
    source.keys(path)
    template = copied(source.mapping(f"{path}.template")) or {}
    if template:
        source.changed(f"{path}.template", "the pods' template, under the application's own fields")
    pod = template.setdefault("spec", {})
    if not isinstance(pod, dict) or not isinstance(template.get("metadata", {}), dict):
        raise source.malformed(f"{path}.template", "is no pod template")
    drop_unused_fields(source, template, f"{path}.template")
    own = pod.get("containers") or [{"name": name}]
    if not isinstance(own, list) or not isinstance(own[0], dict):
        raise source.malformed(f"{path}.template.spec.containers", "must be a list of objects")
    main = next((each for each in own if isinstance(each, dict) and each.get("name") in _CONTAINERS), own[0])
    others = [each for each in own if each is not main]
    sidecars = known_fields(source, source.items(f"{path}.sidecars"), f"{path}.sidecars", "containers")
    pod["containers"] = [{**main, "name": name}, *others, *sidecars]
    if name == DRIVER:
        source.changed(f"{path}.sidecars", SIDECAR_MESSAGE)
        for position, each in enumerate(own):
            if each is not main:
                source.changed(f"{path}.template.spec.containers[{position}]", SIDECAR_MESSAGE)
    else:
        source.same(f"{path}.sidecars", "containers of the pods")
    part = _checked(source, path, name, pods, template)
    apply_conf(settings, name, part.template, part.container)
    part.container.update(_image(source, path))
    _pod_fields(source, path, part.pod)
    _metadata(source, path, part.template)
    set_resources(settings, name, part.container)
    for field in _CONTAINER_FIELDS:
        value = source.take(f"{path}.{field}")
        if value is not None:
            value = known_fields(source, value, f"{path}.{field}", "containers", field)
            before = part.container.get(field) if isinstance(value, list) else None
            part.container[field] = [*(before or ()), *value] if isinstance(value, list) else value
            source.same(f"{path}.{field}", f"{field} of the container")
    _shared_volumes(source, part.pod)
    part = _checked(source, path, name, pods, part.template)
    upsert_env(part.container, _variables(source, path))
    _volumes(source, path, part)
    set_local_directories(part.pod, part.container)
    for field, (message, fix) in _WITHOUT.items():
        source.changed(f"{path}.{field}", message, fix)
    part = _checked(source, path, name, pods, part.template)
    label_part(draft, part, _operator_labels(source, name))
    draft.parts.append(part)
    return part


def _operator_labels(source: LegacySource, role: str) -> OperatorLabels:
    """Return the labels that Spark and its operator set on the pods of a role."""
    name = str(source.peek("metadata.name"))
    static = {
        "spark-role": role,
        "spark-app-name": name,
        "sparkoperator.k8s.io/app-name": name,
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
    }
    if version := source.text("spec.sparkVersion"):
        static["spark-version"] = version
    return OperatorLabels(("spark-", "sparkoperator.k8s.io/"), static)


def _checked(source: LegacySource, path: str, name: str, pods: int, template: Body) -> Part:
    """Return a part with an assembled template, after validation."""
    # Its notes are not used: fields that are left out have been noted with their own paths.
    built = LegacySource(
        {"kind": source.body.get("kind"), "metadata": source.body.get("metadata"), "template": template}
    )
    part = read_part(built, "template", name, pods, (name,))
    part.path, part.role = f"{path}.template", path
    return part


def _image(source: LegacySource, path: str) -> Body:
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


def _pod_fields(source: LegacySource, path: str, pod: Body) -> None:
    for field, name in _POD_FIELDS.items():
        value = source.take(f"{path}.{field}")
        if value is not None:
            pod[name] = known_fields(source, value, f"{path}.{field}", name)
            source.same(f"{path}.{field}", f"{name} of the pods")
    selector = source.texts("spec.nodeSelector")
    if selector:
        pod["nodeSelector"] = {**selector, **pod.get("nodeSelector", {})}
        source.same("spec.nodeSelector", "nodeSelector of the pods")
    secrets = source.items("spec.imagePullSecrets", str)
    if secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in secrets]
        source.same("spec.imagePullSecrets", "imagePullSecrets of the pods")


def _shared_volumes(source: LegacySource, pod: Body) -> None:
    """Add the application's volumes that the pod mounts, as the operator does: a claim may serve one pod alone."""
    containers = [*pod["containers"], *pod.get("initContainers", ())]
    mounts = [mount for each in containers for mount in each.get("volumeMounts") or () if isinstance(mount, dict)]
    names = {mount.get("name") for mount in mounts}
    volumes = known_fields(source, source.items("spec.volumes"), "spec.volumes", "volumes")
    if mounted := [volume for volume in volumes if volume.get("name") in names]:
        pod["volumes"] = [*pod.get("volumes", ()), *mounted]
    source.same("spec.volumes", "volumes of the pods that mount them")


def _metadata(source: LegacySource, path: str, template: Body) -> None:
    inherited = source.peek("metadata.labels") or {}
    labels = {key: value for key, value in inherited.items() if not key.startswith(_KUEUE)}
    if labels:
        section(template, "metadata", "labels").update(labels)
    for kind in ("labels", "annotations"):
        entries = source.texts(f"{path}.{kind}")
        if entries:
            section(template, "metadata", kind).update(entries)
            source.same(f"{path}.{kind}", f"{kind} of the pods")


def _variables(source: LegacySource, path: str) -> Iterator[Body]:
    for name, value in source.texts(f"{path}.envVars").items():
        yield {"name": name, "value": value}
    source.same(f"{path}.envVars", "variables of the container")
    for name, reference in source.mapping(f"{path}.envSecretKeyRefs").items():
        if not isinstance(reference, dict) or not {"name", "key"} <= set(reference):
            raise source.malformed(f"{path}.envSecretKeyRefs", f"{name} must have name and key")
        own = (*parts_of(f"{path}.envSecretKeyRefs"), name)
        known = known_fields(source, reference, own, "containers", "env", "valueFrom", "secretKeyRef")
        yield {"name": name, "valueFrom": {"secretKeyRef": known}}
    source.same(f"{path}.envSecretKeyRefs", "variables of the container")
    variables = known_fields(source, source.items(f"{path}.env"), f"{path}.env", "containers", "env")
    for index, entry in enumerate(variables):
        if not isinstance(entry.get("name"), str):
            raise source.malformed(f"{path}.env[{index}].name", "is missing")
        yield entry
    source.same(f"{path}.env", "variables of the container")


def _volumes(source: LegacySource, path: str, part: Part) -> None:
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
