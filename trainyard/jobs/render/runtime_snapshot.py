"""Runtime snapshot: ConfigMap with the runtime of a TrainJob; later edits of the runtime do not change the job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from trainyard.api import Body, ClusterTrainingRuntime, Runtime, TrainingRuntime, TrainJob, parse
from trainyard.api.constants import GROUP, SNAPSHOT_KEY, SNAPSHOT_SUFFIX
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.render.owned_metadata import owned_metadata
from trainyard.jobs.render.resolved_job import ResolvedJob
from trainyard.jobs.render.runtime_cache import once_per_runtime
from trainyard.manifests.documents import objects
from trainyard.manifests.nodes import InvalidYamlError

_MODELS: Final[Mapping[str, type[TrainingRuntime] | type[ClusterTrainingRuntime]]] = {
    "TrainingRuntime": TrainingRuntime,
    "ClusterTrainingRuntime": ClusterTrainingRuntime,
}
_KEPT_METADATA: Final = ("name", "namespace", "uid", "generation", "labels", "annotations")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_FIX: Final = "delete the ConfigMap; it is recreated from the runtime"
_MAX_BYTES: Final = 1024 * 1024
"""Limit of the API server for the data of a ConfigMap."""
_CACHED: Final = 128
"""Parsed snapshots that are cached."""


def snapshot_name(train_job: str) -> str:
    """Return the name of the snapshot's ConfigMap."""
    return f"{train_job}{SNAPSHOT_SUFFIX}"


def snapshot(train_job: TrainJob, runtime: Runtime) -> Body:
    """Return the ConfigMap: one key with the runtime as JSON, which is also valid YAML."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(train_job, snapshot_name(train_job.metadata.name)),
        "data": {SNAPSHOT_KEY: _text(runtime)},
    }


def check_snapshot(job: ResolvedJob) -> Iterator[Finding]:
    """Yield a runtime that does not fit into a ConfigMap."""
    text = _text(job.runtime)
    if len(text) * 4 > _MAX_BYTES and (size := len(text.encode(errors="surrogatepass"))) > _MAX_BYTES:
        yield Finding(
            "spec.runtimeRef",
            f'{job.runtime.kind} "{job.runtime.metadata.name}" has {size} bytes, '
            f"but its snapshot may have at most {_MAX_BYTES}",
            "move large texts of the runtime (scripts, annotations) into the image or a separate ConfigMap",
        )


def read_snapshot(config_map: Mapping[str, Any], train_job: TrainJob) -> Runtime:
    """Return the runtime of a snapshot.

    Parameters
    ----------
    config_map
        The ConfigMap, written by Trainyard or upstream.
    train_job
        The TrainJob that must own it.

    Raises
    ------
    TrainyardError
        The snapshot is owned by another object, cannot be parsed, or contains another runtime than the referenced one.
    """
    owner = _controller(config_map)
    if owner is None or owner != train_job.metadata.uid:
        raise TrainyardError(
            "invalid runtime snapshot: a snapshot configmap exists but is owned by another object", fix=_FIX
        )
    text = (config_map.get("data") or {}).get(SNAPSHOT_KEY)
    if not isinstance(text, str):
        raise TrainyardError(
            f'invalid runtime snapshot: snapshot ConfigMap missing "{SNAPSHOT_KEY}" data key', fix=_FIX
        )
    return _expected(text, train_job)


@once_per_runtime
def _text(runtime: Runtime) -> str:
    return json.dumps(_kept(runtime), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _kept(runtime: Runtime) -> Body:
    body = {"apiVersion": runtime.api_version, "kind": runtime.kind, **runtime.body()}
    metadata = {name: value for name, value in (body.get("metadata") or {}).items() if name in _KEPT_METADATA}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != _LAST_APPLIED}
    metadata.pop("annotations", None)
    return {**body, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def _controller(config_map: Mapping[str, Any]) -> str | None:
    owners = (config_map.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)


def _read(text: str) -> Body:
    try:
        return json.loads(text)  # type: ignore[no-any-return]
    except RecursionError as error:
        raise TrainyardError(
            "invalid runtime snapshot: unable to unmarshal the snapshot: it is nested too deeply", fix=_FIX
        ) from error
    except ValueError:
        pass
    try:
        loaded = next(objects(text), None)
    except InvalidYamlError as error:
        raise TrainyardError(
            f"invalid runtime snapshot: unable to unmarshal the snapshot: {error.reason}", fix=_FIX
        ) from error
    if not isinstance(loaded, dict):
        raise TrainyardError(
            "invalid runtime snapshot: unable to unmarshal the snapshot: it is not an object", fix=_FIX
        )
    return loaded


def _expected(text: str, train_job: TrainJob) -> Runtime:
    found, runtime = _content(text)
    reference = train_job.spec.runtime_ref if train_job.spec else None
    expected = (reference.name, reference.api_group, reference.kind) if reference else ("", GROUP, "")
    if found != expected or runtime is None:
        raise TrainyardError(
            "invalid runtime snapshot: the snapshot refers to the wrong runtime: "
            "expecting a runtime with name, api group and kind of "
            f"{', '.join(map(repr, expected))} but found {', '.join(map(repr, found))}",
            fix=_FIX,
        )
    return runtime


@lru_cache(maxsize=_CACHED)
def _content(text: str) -> tuple[tuple[Any, str, Any], Runtime | None]:
    """Return name, group and kind of the object in a snapshot, and the runtime, or None for another kind.

    Cached: many TrainJobs have a snapshot of the same runtime, and parsed runtimes are immutable.
    """
    body = _read(text)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    kind = body.get("kind") if isinstance(body, dict) else None
    group = str(body.get("apiVersion", "") if isinstance(body, dict) else "").partition("/")[0]
    model = _MODELS.get(str(kind))
    return (name, group, kind), parse(model, body) if model else None
