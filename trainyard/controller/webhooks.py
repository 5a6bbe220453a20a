"""The admission webhook server: defaulting and validation by the same functions that render, in every replica."""

from __future__ import annotations

import base64
import datetime
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import orjson
from aiohttp import web

from trainyard.api import ClusterTrainingRuntime, Runtime, TrainingRuntime, TrainJob, parse
from trainyard.api.constants import MANAGED_BY_TRAINER, TRAIN_JOB
from trainyard.controller.cluster_cache import ClusterView
from trainyard.controller.metrics import Metrics
from trainyard.controller.policies import Policies, told
from trainyard.controller.snapshots import stored_runtime
from trainyard.kube import ApiError, Client, Object, TransportError
from trainyard.policy.gate import Ruling, unavailable
from trainyard.policy.review import DecisionUnavailableError
from trainyard.problem import Problem, TrainyardError
from trainyard.render import Verdict, admit, defaulted, validate, validate_runtime, wants_runtime
from trainyard.render.immutability import leaves_objects

__all__ = ["MUTATE_TRAIN_JOB", "VALIDATE_PREFIX", "Admission", "application"]

_LOG = logging.getLogger(__name__)
MUTATE_TRAIN_JOB = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob"
VALIDATE_PREFIX = "/validate-trainer-kubeflow-org-v1alpha1-"
_BODY_LIMIT = 8 * 1024 * 1024
_WARNING_LIMIT = 250
_WARNINGS = 20
_REASONS = {400: "BadRequest", 403: "Forbidden", 503: "ServiceUnavailable"}

Request = dict[str, Any]
Answer = dict[str, Any]


class Admission:
    """Decides about admission requests.

    Parameters
    ----------
    client
        API client, for a runtime that was created a moment ago.
    view
        The informers.
    policies
        Judges what is well-formed; None where policies are off.
    clock
        Wall clock (UTC).
    """

    def __init__(
        self,
        client: Client,
        view: ClusterView,
        *,
        policies: Policies | None = None,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._client = client
        self._view = view
        self._policies = policies
        self._clock = clock

    async def mutate_train_job(self, request: Request) -> Answer:
        """Return the JSON patch that defaults a TrainJob."""
        body = request["object"]
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = defaulted(body, request.get("oldObject"), now, await self._runtime_for_defaults(body, request))
        if wanted == body:
            return {"allowed": True}
        operations = [
            {"op": "add", "path": f"/{_escaped(field)}", "value": value}
            for field, value in wanted.items()
            if value != body.get(field)
        ]
        patch = base64.b64encode(orjson.dumps(operations)).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    async def validate_train_job(self, request: Request) -> Answer:
        """Judge a TrainJob together with its runtime and what is made of both."""
        body, old = _completed(request["object"], request), request.get("oldObject")
        if body["metadata"].get("deletionTimestamp"):
            return {"allowed": True}
        if old is not None and body.get("spec") == old.get("spec"):
            return await self._ruled(request, body, Verdict())
        train_job = parse(TrainJob, body)
        if train_job.spec is not None and train_job.spec.managed_by != MANAGED_BY_TRAINER and old is not None:
            return await self._ruled(request, body, Verdict())
        before = parse(TrainJob, _completed(old, request)) if old is not None else None
        context = self._view.context(body)
        made: tuple[Object, ...] = ()
        leaves = before is not None and leaves_objects(train_job, before)
        runtime = await self._runtime(body, None if leaves else before)
        if before is not None and leaves:
            verdict = validate(train_job, runtime, context, old=before)
        else:
            verdict, made = admit(train_job, runtime, context, old=before)
        return await self._ruled(request, body, verdict, runtime, made)

    async def _runtime(self, body: Object, before: TrainJob | None) -> Runtime | None:
        """Return the runtime that the objects of a TrainJob are rendered from: its snapshot, where it has one."""
        kept = await stored_runtime(self._client, before) if before is not None else None
        return kept if kept is not None else await self._view.live_runtime(body)

    async def _ruled(
        self,
        request: Request,
        body: Object,
        verdict: Verdict,
        runtime: Runtime | None = None,
        made: Iterable[Object] = (),
    ) -> Answer:
        """Return the answer about an object: the verdict on its form and, where that is good, the ruling on policy."""
        old, kind = request.get("oldObject"), body["kind"]
        ruling = Ruling()
        if self._policies is not None and verdict.allowed and _concerns_policies(body, old):
            if runtime is None and kind == TRAIN_JOB:
                runtime = await self._sound_runtime(body)
            ruling = await self._policies.judge(
                "CREATE" if old is None else "UPDATE",
                body,
                old=old,
                runtime=runtime,
                made=made,
                user=request.get("userInfo") or {},
            )
        return _answer(kind, body, verdict, ruling)

    async def _runtime_for_defaults(self, body: Object, request: Request) -> Runtime | None:
        """Return the runtime where defaults depend on it."""
        return await self._sound_runtime(_completed(body, request)) if wants_runtime(body) else None

    async def _sound_runtime(self, body: Object) -> Runtime | None:
        """Return the runtime that a TrainJob names; one that is broken counts as none."""
        try:
            return await self._view.live_runtime(body)
        except TrainyardError:
            return None

    async def validate_training_runtime(self, request: Request) -> Answer:
        """Judge a TrainingRuntime."""
        body, old = request["object"], request.get("oldObject")
        if body["metadata"].get("deletionTimestamp"):
            return {"allowed": True}
        before = parse(TrainingRuntime, old) if old is not None else None
        body = _completed(body, request)
        return await self._ruled(request, body, validate_runtime(parse(TrainingRuntime, body), before))

    async def validate_cluster_training_runtime(self, request: Request) -> Answer:
        """Judge a ClusterTrainingRuntime."""
        body, old = request["object"], request.get("oldObject")
        if body["metadata"].get("deletionTimestamp"):
            return {"allowed": True}
        before = parse(ClusterTrainingRuntime, old) if old is not None else None
        return await self._ruled(request, body, validate_runtime(parse(ClusterTrainingRuntime, body), before))


def application(admission: Admission, metrics: Metrics) -> web.Application:
    """Return the web application with upstream's paths."""
    app = web.Application(client_max_size=_BODY_LIMIT)
    routes = {
        MUTATE_TRAIN_JOB: admission.mutate_train_job,
        f"{VALIDATE_PREFIX}trainjob": admission.validate_train_job,
        f"{VALIDATE_PREFIX}trainingruntime": admission.validate_training_runtime,
        f"{VALIDATE_PREFIX}clustertrainingruntime": admission.validate_cluster_training_runtime,
    }
    for path, decide in routes.items():
        app.router.add_post(path, _handler(path, decide, metrics))
    return app


def _handler(
    path: str, decide: Callable[[Request], Awaitable[Answer]], metrics: Metrics
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(http: web.Request) -> web.Response:
        started = time.monotonic()
        metrics.webhook_active.labels(path).inc()
        code = 500
        try:
            response = await _review(http, decide)
            code = response.status
            return response
        except web.HTTPException as error:
            code = error.status
            raise
        finally:
            metrics.webhook_active.labels(path).dec()
            metrics.webhook_requests.labels(path, str(code)).inc()
            metrics.webhook_seconds.labels(path).observe(time.monotonic() - started)

    return handle


async def _review(http: web.Request, decide: Callable[[Request], Awaitable[Answer]]) -> web.Response:
    try:
        review = orjson.loads(await http.read())
        request = review["request"]
        uid, body = request["uid"], request["object"]
        metadata = body["metadata"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise web.HTTPBadRequest(text="not an AdmissionReview of an object") from error
    if not isinstance(metadata, dict):
        raise web.HTTPBadRequest(text="the object has no metadata")
    answer = {"uid": uid, **await _decide(decide, request)}
    reply = {
        "apiVersion": review.get("apiVersion", "admission.k8s.io/v1"),
        "kind": "AdmissionReview",
        "response": answer,
    }
    return web.Response(body=orjson.dumps(reply), content_type="application/json")


async def _decide(decide: Callable[[Request], Awaitable[Answer]], request: Request) -> Answer:
    name = f"{(request.get('kind') or {}).get('kind', 'object')} {request.get('name') or ''}".strip()
    try:
        return await decide(request)
    except DecisionUnavailableError as error:
        _LOG.warning("admission of %s: %s", name, error.message)
        return _denied(503, name, (unavailable(error),))
    except TrainyardError as error:
        found = error.problems or (Problem("", error.message, error.fix),)
        return _denied(400 if error.problems else 403, name, found)
    except (ApiError, TransportError) as error:
        return {
            "allowed": False,
            "status": {"code": 503, "reason": "ServiceUnavailable", "message": f"{name}: {error}"},
        }
    except Exception:
        _LOG.exception("admission of %s failed", name)
        text = f"{name}: the check itself failed; the controller's log says why"
        return {"allowed": False, "status": {"code": 500, "reason": "InternalError", "message": text}}


def _answer(kind: str, body: Object, verdict: Verdict, ruling: Ruling) -> Answer:
    answer: Answer = {"allowed": True}
    denials = (*verdict.errors, *ruling.denials)
    if denials:
        answer = _denied(403, f"{kind} {body['metadata'].get('name') or ''}".strip(), denials)
    warnings = (*verdict.warnings, *ruling.warnings)[:_WARNINGS]
    if warnings:
        answer["warnings"] = [_shortened(told(problem)) for problem in warnings]
    if ruling.audits:
        answer["auditAnnotations"] = {"violations": "; ".join(told(problem) for problem in ruling.audits)}
    return answer


def _shortened(text: str) -> str:
    return text if len(text) <= _WARNING_LIMIT else text[: _WARNING_LIMIT - 1] + "…"


def _concerns_policies(body: Object, old: Object | None) -> bool:
    """Whether anything changed that rules judge; an owner or finalizer can be taken away whatever became of them."""
    if old is None or body.get("spec") != old.get("spec"):
        return True
    return any(body["metadata"].get(part) != old["metadata"].get(part) for part in ("labels", "annotations"))


def _denied(code: int, name: str, problems: Iterable[Problem]) -> Answer:
    text = "; ".join(told(problem) for problem in problems)
    reason = _REASONS[code]
    return {"allowed": False, "status": {"code": code, "reason": reason, "message": f"{name} is refused: {text}"}}


def _completed(body: Object, request: Request) -> Object:
    """Fill in what the API server knows of an object that is being created."""
    if body["metadata"].get("namespace") or not request.get("namespace"):
        return body
    return {**body, "metadata": {**body["metadata"], "namespace": request["namespace"]}}


def _escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
