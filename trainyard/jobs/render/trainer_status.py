"""Progress reports of training code: URL, token and CA certificates of the status server.

Names, paths and the token's audience equal those of upstream, which the callbacks of the trainer require.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import API_VERSION
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import prepend_env, upsert_mount, upsert_volume

_MOUNT_PATH: Final = "/var/run/secrets/kubeflow/trainer"
_VOLUME: Final = "kubeflow-trainer-token"
_TOKEN_SECONDS: Final = 3600
_TOKEN: Final = "token"  # noqa: S105 - a file name
AUTHORITY_KEY: Final = "ca.crt"
"""Key of the CA certificates in the ConfigMap."""
AUTHORITY_PLACEHOLDER: Final = "<ca.crt: copied by the controller>"
"""Placeholder for unknown CA certificates."""


def status_path(namespace: str, train_job: str) -> str:
    """Return the URL path for reports of a TrainJob."""
    return f"/apis/{token_audience(namespace, train_job)}"


def token_audience(namespace: str, train_job: str) -> str:
    """Return the token audience that authorizes reports for exactly one TrainJob."""
    return f"{API_VERSION}/namespaces/{namespace}/trainjobs/{train_job}/status"


def authority_name(train_job: str) -> str:
    """Return the name of the ConfigMap with the CA certificates of the status server."""
    return f"{train_job}-tls-config"


def apply_trainer_status(builder: JobSetBuilder) -> None:
    """Configure progress reports in all containers of the trainer, if a status server is installed."""
    server, trainer = builder.context.status_server, builder.trainer
    if server is None or trainer is None:
        return
    url = f"https://{server.service}.{server.namespace}.svc:{server.port}{status_path(builder.namespace, builder.name)}"
    variables = {
        "KUBEFLOW_TRAINER_SERVER_URL": url,
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": f"{_MOUNT_PATH}/{AUTHORITY_KEY}",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": f"{_MOUNT_PATH}/{_TOKEN}",
    }
    for container in trainer.pod.get("containers", ()):
        prepend_env(container, [{"name": name, "value": value} for name, value in variables.items()])
        upsert_mount(container, {"name": _VOLUME, "mountPath": _MOUNT_PATH, "readOnly": True})
    upsert_volume(trainer.pod, _volume(builder))


def trainer_status_objects(builder: JobSetBuilder) -> Iterator[Body]:
    """Yield the ConfigMap with the CA certificates, if a status server is installed."""
    server = builder.context.status_server
    if server is None:
        return
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": builder.metadata(authority_name(builder.name)),
        "data": {AUTHORITY_KEY: AUTHORITY_PLACEHOLDER if server.authority is None else server.authority},
    }


def _volume(builder: JobSetBuilder) -> Body:
    token = {
        "audience": token_audience(builder.namespace, builder.name),
        "expirationSeconds": _TOKEN_SECONDS,
        "path": _TOKEN,
    }
    authority = {"name": authority_name(builder.name), "items": [{"key": AUTHORITY_KEY, "path": AUTHORITY_KEY}]}
    return {"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": authority}]}}
