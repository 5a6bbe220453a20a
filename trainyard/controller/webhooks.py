"""Admission webhook server (all replicas): defaulting and validation with the functions of `trainyard.jobs.render`."""

from __future__ import annotations

import base64
import datetime
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
from aiohttp import web

from trainyard.api import ClusterTrainingRuntime, Runtime, TrainingRuntime, TrainJob, parse
from trainyard.api.constants import CLUSTER_TRAINING_RUNTIME, MANAGED_BY_TRAINER, TRAIN_JOB, TRAINING_RUNTIME
from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import printable
from trainyard.controller.admission_reviews import Request, read_review
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.configuration import WEBHOOK_TIMEOUT_SECONDS, WebhookClients
from trainyard.controller.metrics import Metrics
from trainyard.controller.policy_review import PolicyReviewer, message_of
from trainyard.controller.redacted_answers import redacted_decision, redacted_verdict
from trainyard.controller.review_bodies import BODY_LIMIT, RefusedBodyError, ReviewBodies
from trainyard.controller.runtime_deletion import deletion_warnings
from trainyard.controller.snapshots import stored_runtime
from trainyard.controller.webhook_clients import is_api_server
from trainyard.errors import TrainyardError
from trainyard.jobs.render.defaults import defaulted, wants_runtime
from trainyard.jobs.render.immutability import joins_queue, leaves_objects, stops
from trainyard.jobs.render.pipeline import admit, validate
from trainyard.jobs.render.result import AdmissionDecision
from trainyard.jobs.render.runtime_admission import admission_warnings, validate_runtime
from trainyard.jobs.render.typed_clients import normalized_runtime, with_lost_fields
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object
from trainyard.manifests.documents import in_namespace
from trainyard.policy.gate import GateDecision, unavailable
from trainyard.policy.review import DecisionUnavailableError

_LOG = logging.getLogger(__name__)
MUTATE_PREFIX = "/mutate-trainer-kubeflow-org-v1alpha1-"
MUTATE_TRAIN_JOB = f"{MUTATE_PREFIX}trainjob"
VALIDATE_PREFIX = "/validate-trainer-kubeflow-org-v1alpha1-"
_WARNING_LIMIT = 250
_WARNINGS = 20
_REASONS = {400: "BadRequest", 403: "Forbidden", 503: "ServiceUnavailable"}

Response = dict[str, Any]
_Decide = Callable[[Request], Awaitable[Response]]
_Answer = Callable[[web.Request], Awaitable[web.Response]]
_AnyRuntime = TypeVar("_AnyRuntime", TrainingRuntime, ClusterTrainingRuntime)


class Admission:
    """Handlers of admission requests.

    Parameters
    ----------
    client
        API client, for objects that are not cached yet.
    cache
        Cluster cache.
    policies
        Policies of valid objects; None: policies are off.
    redact
        Whether answers quote nothing of a namespace but what a review contains: it is not known who asks.
    clock
        Wall clock (UTC).
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        *,
        policies: PolicyReviewer | None = None,
        redact: bool = False,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._client = client
        self._cache = cache
        self._policies = policies
        self._redact = redact
        self._clock = clock

    async def mutate_train_job(self, request: Request) -> Response:
        """Return the JSON patch that defaults a TrainJob and restores fields that an older client does not know."""
        body, old = request["object"], request.get("oldObject")
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        manager = (request.get("options") or {}).get("fieldManager") or ""
        wanted, warnings = with_lost_fields(body, old, manager)
        if old is not None and stops(wanted, old):
            return _patched(body, wanted, warnings)
        wanted = defaulted(wanted, old, now, await self._runtime_for_defaults(wanted, request))
        return _patched(body, wanted, warnings)

    async def mutate_runtime(self, request: Request) -> Response:
        """Return the JSON patch that writes a TrainingRuntime or ClusterTrainingRuntime as Go clients do."""
        body, old = request["object"], request.get("oldObject")
        return _patched(body, body if _keeps_spec(body, old) else normalized_runtime(body, old))

    async def validate_train_job(self, request: Request) -> Response:
        """Validate a TrainJob, its runtime and the rendered objects."""
        body, old = in_namespace(request["object"], request.get("namespace")), request.get("oldObject")
        if body["metadata"].get("deletionTimestamp") or (old is not None and stops(body, old)):
            return {"allowed": True}
        if old is not None and body.get("spec") == old.get("spec") and not joins_queue(body, old):
            return await self._with_policies(request, body, AdmissionDecision())
        train_job = parse(TrainJob, body)
        if train_job.spec is not None and train_job.spec.managed_by != MANAGED_BY_TRAINER and old is not None:
            return await self._with_policies(request, body, AdmissionDecision())
        before = parse(TrainJob, in_namespace(old, request.get("namespace"))) if old is not None else None
        context = self._cache.context(body)
        rendered: tuple[Object, ...] = ()
        leaves = before is not None and leaves_objects(train_job, before)
        runtime, kept = await self._runtime(body, None if leaves else before)
        if kept:
            context = replace(context, from_snapshot=True, stored_runtime=await self._valid_runtime(body))
        if before is not None and leaves:
            verdict = validate(train_job, runtime, context, old=before)
        else:
            verdict, rendered = admit(train_job, runtime, context, old=before)
        if self._redact and (kept or isinstance(runtime, TrainingRuntime)):
            verdict = redacted_verdict(verdict, train_job, before)
        return await self._with_policies(request, body, verdict, runtime, rendered)

    async def _runtime(self, body: Object, before: TrainJob | None) -> tuple[Runtime | None, bool]:
        """Return the runtime of a TrainJob, and whether it is that of its snapshot."""
        kept = await stored_runtime(self._client, before) if before is not None else None
        return (kept, True) if kept is not None else (await self._live_runtime(body), False)

    async def _live_runtime(self, body: Object) -> Runtime | None:
        try:
            return await self._cache.find_runtime(body)
        except TrainyardError as error:
            if not self._redact or body["spec"]["runtimeRef"].get("kind") != TRAINING_RUNTIME:
                raise
            raise TrainyardError("the runtime is invalid", fix="run `trainyard check` with it") from error

    async def _with_policies(
        self,
        request: Request,
        body: Object,
        verdict: AdmissionDecision,
        runtime: Runtime | None = None,
        rendered: Iterable[Object] = (),
    ) -> Response:
        """Return the response for an object: the validation result and, if valid, the policy decision."""
        old, kind = request.get("oldObject"), body["kind"]
        decision = GateDecision()
        if self._policies is not None and verdict.allowed and _concerns_policies(body, old):
            if runtime is None and kind == TRAIN_JOB:
                runtime = await self._valid_runtime(body)
            decision = await self._policies.review(
                "CREATE" if old is None else "UPDATE",
                body,
                old=old,
                runtime=runtime,
                rendered=rendered,
                user=request.get("userInfo") or {},
            )
            if self._redact and body["metadata"].get("namespace"):
                decision = redacted_decision(decision)
        return _response(kind, body, verdict, decision)

    async def _runtime_for_defaults(self, body: Object, request: Request) -> Runtime | None:
        """Return the runtime if defaulting depends on it."""
        return await self._valid_runtime(in_namespace(body, request.get("namespace"))) if wants_runtime(body) else None

    async def _valid_runtime(self, body: Object) -> Runtime | None:
        """Return the runtime that a TrainJob references; None if missing or invalid."""
        try:
            return await self._cache.find_runtime(body)
        except TrainyardError:
            return None

    async def validate_training_runtime(self, request: Request) -> Response:
        """Validate a TrainingRuntime."""
        return await self._validate_runtime(
            request, in_namespace(request["object"], request.get("namespace")), TrainingRuntime
        )

    async def validate_cluster_training_runtime(self, request: Request) -> Response:
        """Validate a ClusterTrainingRuntime."""
        return await self._validate_runtime(request, request["object"], ClusterTrainingRuntime)

    async def _validate_runtime(self, request: Request, body: Object, model: type[_AnyRuntime]) -> Response:
        """Validate a runtime; an update that leaves its spec alone is accepted whatever the stored spec is."""
        old = request.get("oldObject")
        if request.get("operation") == "DELETE":
            shown = not self._redact
            return {"allowed": True, **_warnings(deletion_warnings(body, self._cache.train_jobs.store, named=shown))}
        if body["metadata"].get("deletionTimestamp"):
            return {"allowed": True}
        if _keeps_spec(body, old):
            named = parse(model, {name: value for name, value in body.items() if name != "spec"})
            return await self._with_policies(request, body, AdmissionDecision((), tuple(admission_warnings(named))))
        before = parse(model, old) if old is not None else None
        gates = self._cache.platform_context().job_set_gates
        return await self._with_policies(request, body, validate_runtime(parse(model, body), before, gates))


def application(
    admission: Admission,
    metrics: Metrics,
    clients: WebhookClients | None = None,
    bodies: ReviewBodies | None = None,
) -> web.Application:
    """Return the web application with upstream's webhook paths.

    Parameters
    ----------
    admission, metrics
        Handlers of reviews, and the metrics that count them.
    clients
        Certificates of those whose reviews are answered; None: all are.
    bodies
        Reads the bodies of requests.
    """
    bodies = bodies or ReviewBodies(WEBHOOK_TIMEOUT_SECONDS)
    app = web.Application(client_max_size=BODY_LIMIT)
    routes = {
        MUTATE_TRAIN_JOB: (TRAIN_JOB, admission.mutate_train_job),
        f"{MUTATE_PREFIX}trainingruntime": (TRAINING_RUNTIME, admission.mutate_runtime),
        f"{MUTATE_PREFIX}clustertrainingruntime": (CLUSTER_TRAINING_RUNTIME, admission.mutate_runtime),
        f"{VALIDATE_PREFIX}trainjob": (TRAIN_JOB, admission.validate_train_job),
        f"{VALIDATE_PREFIX}trainingruntime": (TRAINING_RUNTIME, admission.validate_training_runtime),
        f"{VALIDATE_PREFIX}clustertrainingruntime": (
            CLUSTER_TRAINING_RUNTIME,
            admission.validate_cluster_training_runtime,
        ),
    }

    def answering(kind: str, decide: _Decide) -> _Answer:
        async def answer(http: web.Request) -> web.Response:
            if clients is not None and not is_api_server(http, clients):
                return _refused(
                    HTTPStatus.FORBIDDEN,
                    "reviews are answered to the API server only, which shows its client certificate",
                )
            try:
                async with bodies.body(http) as data:
                    version, request = read_review(data, kind)
                    response = {"uid": request["uid"], **await _decide(decide, request)}
            except RefusedBodyError as error:
                return _refused(error.status, error.message)
            except TrainyardError as error:
                return _refused(HTTPStatus.BAD_REQUEST, error.message)
            reply = {"apiVersion": version, "kind": "AdmissionReview", "response": response}
            return web.Response(body=orjson.dumps(reply), content_type="application/json")

        return answer

    for path, (kind, decide) in routes.items():
        app.router.add_post(path, _counted(path, answering(kind, decide), metrics))
    return app


def _counted(path: str, answer: _Answer, metrics: Metrics) -> _Answer:
    async def handle(http: web.Request) -> web.Response:
        started = time.monotonic()
        metrics.webhook_active.labels(path).inc()
        code = 500
        try:
            response = await answer(http)
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


def _refused(status: HTTPStatus, text: str) -> web.Response:
    """Return the answer to what no API server sends; its connection ends."""
    response = web.Response(status=status, text=text)
    response.force_close()
    return response


async def _decide(decide: _Decide, request: Request) -> Response:
    name = printable(f"{request['object']['kind']} {request.get('name') or ''}".strip())
    try:
        return await decide(request)
    except DecisionUnavailableError as error:
        _LOG.warning("admission of %r: %s", name, error.message)
        return _denied(503, name, (unavailable(error),))
    except TrainyardError as error:
        return _denied(400 if error.findings else 403, name, error.as_findings())
    except (ApiError, TransportError) as error:
        return {
            "allowed": False,
            "status": {"code": 503, "reason": "ServiceUnavailable", "message": printable(f"{name}: {error}")},
        }
    except Exception:
        _LOG.exception("admission of %r failed", name)
        text = f"{name}: internal error; see the controller's log"
        return {"allowed": False, "status": {"code": 500, "reason": "InternalError", "message": text}}


def _response(kind: str, body: Object, verdict: AdmissionDecision, decision: GateDecision) -> Response:
    response: Response = {"allowed": True}
    denials = (*verdict.errors, *decision.denials)
    if denials:
        response = _denied(403, f"{kind} {body['metadata'].get('name') or ''}".strip(), denials)
    response |= _warnings((*verdict.warnings, *decision.warnings))
    if decision.audits:
        response["auditAnnotations"] = {"violations": "; ".join(message_of(finding) for finding in decision.audits)}
    return response


def _patched(body: Object, wanted: Object, warnings: Iterable[Finding] = ()) -> Response:
    """Return the response that changes the top-level fields of an object."""
    response: Response = {"allowed": True, **_warnings(warnings)}
    operations = [
        {"op": "add", "path": f"/{_escaped(field)}", "value": value}
        for field, value in wanted.items()
        if value != body.get(field)
    ]
    if operations:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}
    return response


def _warnings(findings: Iterable[Finding]) -> Response:
    texts = [_truncated(message_of(finding)) for finding in findings][:_WARNINGS]
    return {"warnings": texts} if texts else {}


def _truncated(text: str) -> str:
    return text if len(text) <= _WARNING_LIMIT else text[: _WARNING_LIMIT - 1] + "…"


def _keeps_spec(body: Object, old: Object | None) -> bool:
    return old is not None and body.get("spec") == old.get("spec")


def _concerns_policies(body: Object, old: Object | None) -> bool:
    """Whether fields that rules review changed; owner references and finalizers can always be removed."""
    if old is None or body.get("spec") != old.get("spec"):
        return True
    return any(body["metadata"].get(part) != old["metadata"].get(part) for part in ("labels", "annotations"))


def _denied(code: int, name: str, findings: Iterable[Finding]) -> Response:
    text = "; ".join(message_of(finding) for finding in findings)
    reason = _REASONS[code]
    return {
        "allowed": False,
        "status": {"code": code, "reason": reason, "message": printable(f"{name} is rejected: {text}")},
    }


def _escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
