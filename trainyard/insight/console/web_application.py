"""Pages of the console: one function a page, which asks a view model and fills a template."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from trainyard.checks.printable_text import printable_lines
from trainyard.cluster_state.observed import Kind
from trainyard.errors import TrainyardError
from trainyard.insight.console.asset_lock import ASSETS
from trainyard.insight.console.plan_limit import PlanLimit, TooManyPlansError
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.shared_reader import MAX_VIEWERS, SharedReader
from trainyard.insight.console.viewer_credential import passed_token
from trainyard.insight.console.views.fabric_map import COLORINGS, ZOOMS, FabricQuery, fabric_map
from trainyard.insight.console.views.job_list import SORTS, JobQuery, job_list
from trainyard.insight.console.views.job_page import job_page
from trainyard.insight.console.views.platform_health import health
from trainyard.insight.console.views.queue_bars import WIDTH, queue_bars, queue_resources
from trainyard.insight.console.views.runtime_table import runtime_rows
from trainyard.insight.console.views.settings_plan import settings_plan
from trainyard.kube.api_errors import CredentialsError, TransportError
from trainyard.scheduling.queues.snapshot import snapshot_of_file
from trainyard.stack_checks import stack_scheduling

_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_QUEUES: Final = 500
_HEARTBEAT: Final = 15.0
_FABRIC_KINDS: Final = {"nodes": Kind.NODE, "pods": Kind.POD, "domains": Kind.HYPER_NODE}
_PAGES: Final = (
    ("/", "Now"),
    ("/queues", "Queues"),
    ("/fabric", "Fabric"),
    ("/jobs", "Jobs"),
    ("/runtimes", "Runtimes"),
    ("/scenarios", "Scenarios"),
)


def application(
    reader: SharedReader,
    scenarios: ScenarioFolder | None = None,
    viewer: str = "",
    *,
    plans: PlanLimit | None = None,
) -> Starlette:
    """Return the pages as an ASGI application.

    Parameters
    ----------
    reader
        The state; the application starts and closes it.
    scenarios
        Folder of reports of `trainyard simulate`.
    viewer
        Name of the user; empty: the pages do not show one.
    plans
        Limit of plans; None: one of its own.
    """
    pages = _Pages(reader, scenarios or ScenarioFolder(None), viewer, plans=plans or PlanLimit())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await reader.start()
        try:
            yield
        finally:
            await reader.close()

    return Starlette(
        routes=[
            Route("/", pages.now),
            Route("/queues", pages.queues),
            Route("/queues/plan", pages.plan, methods=["POST"]),
            Route("/fabric", pages.fabric),
            Route("/jobs", pages.jobs),
            Route("/jobs/{kind}/{namespace}/{name}", pages.job),
            Route("/jobs/{kind}/{namespace}/{name}/logs", pages.logs),
            Route("/runtimes", pages.runtimes),
            Route("/scenarios", pages.scenarios),
            Route("/scenarios/{file}", pages.scenario),
            Route("/scenarios/{file}/drawing", pages.drawing),
            Route("/events", pages.events),
            Mount("/assets", StaticFiles(directory=ASSETS)),
        ],
        exception_handlers={HTTPException: pages.failed, TrainyardError: pages.rejected, Exception: pages.broken},
        lifespan=lifespan,
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters["query"] = lambda values: urlencode(values)
    return environment


def _shown(value: object) -> object:
    """Return a value of a template; names and messages of tenants have no control characters afterwards."""
    if value is None:
        return ""
    return printable_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class _Pages:
    def __init__(self, reader: SharedReader, scenarios: ScenarioFolder, viewer: str, *, plans: PlanLimit) -> None:
        self._plans = plans
        self._reader = reader
        self._scenarios = scenarios
        self._viewer = viewer
        self._environment = _environment()

    async def _page(self, request: Request, template: str, compute: Callable[[], dict[str, Any]]) -> Response:
        """Return a page; view model and template run in a thread, so that updates to other pages are not delayed."""
        common = self._common(request)

        def render() -> str:
            return self._environment.get_template(template).render({**common, **compute()})

        return HTMLResponse(await run_in_threadpool(render))

    def _common(self, request: Request) -> dict[str, Any]:
        source = self._reader.source
        query = request.url.query
        return {
            "pages": _PAGES,
            "viewer": self._viewer,
            "signs_out": bool(self._viewer) and passed_token(request) is None,
            "live": request.method == "GET",
            "version": self._reader.version,
            "path": request.url.path,
            "address": request.scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
            "source": source.name,
            "fault": source.fault or self._reader.fault,
            "unread": self._reader.view.unread,
            "requests": source.requests,
            "when": (source.confirmed or self._reader.view.now).strftime("%Y-%m-%d %H:%M:%S UTC"),
        }

    async def now(self, request: Request) -> Response:
        """Whether the platform is well."""
        samples = list(self._reader.history.samples)

        def compute() -> dict[str, Any]:
            view = self._reader.view
            return {"health": view.memo(("health", self._reader.version), partial(health, view)), "samples": samples}

        return await self._page(request, "now.html", compute)

    async def queues(self, request: Request) -> Response:
        """Queue tree with bars."""

        def compute() -> dict[str, Any]:
            view = self._reader.view
            resources = queue_resources(view)
            chosen = request.query_params.get("resource", "")
            resource = (
                chosen if chosen in resources else (view.resource if view.resource in resources else resources[0])
            )
            bars = queue_bars(view, resource)
            texts = {
                "resource": resource,
                "tree_fault": view.cluster.shares.fault,
                "unknown_queues": view.unread_of(Kind.QUEUE),
                "unknown_gangs": view.unread_of(Kind.POD_GROUP),
            }
            shown = {"bars": bars[:_QUEUES], "more": max(0, len(bars) - _QUEUES)}
            return {**shown, "resources": resources, "width": WIDTH, **texts}

        return await self._page(request, "queues.html", compute)

    async def plan(self, request: Request) -> Response:
        """Effect of a pasted or uploaded settings file; nothing is written."""
        length = request.headers.get("content-length", "")
        size = self._plans.size
        if not length.isdecimal() or int(length) > 2 * size:
            raise HTTPException(413, f"The settings are larger than {size} bytes.")
        async with request.form(max_files=1, max_fields=2, max_part_size=size) as form:
            text = form.get("settings", "")
            upload = form.get("file")
            if isinstance(upload, UploadFile) and upload.filename:
                text = (await upload.read(size + 1)).decode("utf-8", "replace")
        content = str(text)
        if len(content.encode()) > size:
            raise HTTPException(413, f"The settings are larger than {size} bytes.")

        def compute() -> dict[str, Any]:
            after = snapshot_of_file(content, "the settings", stack_scheduling)
            return {"plan": settings_plan(self._reader.view, after)}

        try:
            with self._plans.one(self):
                return await self._page(request, "plan.html", compute)
        except TooManyPlansError:
            raise HTTPException(429, "Other plans are computed now. Try again.") from None

    async def fabric(self, request: Request) -> Response:
        """Drawing of the fabric."""
        query = FabricQuery.of(request.query_params)

        def compute() -> dict[str, Any]:
            view = self._reader.view
            unknown = {name: view.unread_of(kind) for name, kind in _FABRIC_KINDS.items()}
            return {"map": fabric_map(view, query), "colorings": COLORINGS, "zooms": ZOOMS, "unknown": unknown}

        return await self._page(request, "fabric.html", compute)

    async def jobs(self, request: Request) -> Response:
        """Table of jobs."""
        query = JobQuery.of(request.query_params)
        return await self._page(
            request,
            "jobs.html",
            lambda: {
                "list": job_list(self._reader.view, query, self._reader.history.by_job),
                "sorts": tuple(SORTS),
            },
        )

    async def job(self, request: Request) -> Response:
        """One job."""
        key = "/".join(request.path_params[each] for each in ("kind", "namespace", "name"))

        def compute() -> dict[str, Any]:
            view = self._reader.view
            row = view.by_key.get(key)
            found = job_page(view, key, self._reader.history.steps(row.identity)) if row is not None else None
            if found is None:
                raise HTTPException(404, f"{key} does not exist, or has ended and was deleted.")
            return {"job": found}

        return await self._page(request, "job.html", compute)

    async def logs(self, request: Request) -> Response:
        """Last lines of a container of a job's pod."""
        key = "/".join(request.path_params[each] for each in ("kind", "namespace", "name"))
        pod, container = (request.query_params.get(each, "") for each in ("pod", "container"))
        found = await run_in_threadpool(job_page, self._reader.view, key)
        if found is None or not any(each.name == pod and container in each.containers for each in found.pods):
            raise HTTPException(404, "This job has no such container.")
        try:
            text = await self._reader.source.logs(request.path_params["namespace"], pod, container)
        except (TransportError, CredentialsError) as error:
            raise TrainyardError(f"No logs: {error}", fix="check that the cluster answers") from error
        values = {"text": text, "pod": pod, "container": container, "row": found.row, "live": False}
        return await self._page(request, "logs.html", lambda: values)

    async def runtimes(self, request: Request) -> Response:
        """Installed runtimes."""
        return await self._page(request, "runtimes.html", lambda: {"rows": runtime_rows(self._reader.view)})

    async def scenarios(self, request: Request) -> Response:
        """Reports of scenarios."""
        return await self._page(
            request, "scenarios.html", lambda: {"folder": self._scenarios, "files": self._scenarios.names}
        )

    async def scenario(self, request: Request) -> Response:
        """One report."""
        file = request.path_params["file"]
        if file not in await run_in_threadpool(lambda: self._scenarios.names):
            raise HTTPException(404, "This report does not exist.")
        return await self._page(request, "scenario.html", lambda: {"report": self._scenarios.report(file)})

    async def drawing(self, request: Request) -> Response:
        """Drawing of a scenario, as an image: its styles do not apply to the page."""
        content = await run_in_threadpool(self._scenarios.drawing, request.path_params["file"])
        if content is None:
            raise HTTPException(404, "This drawing does not exist.")
        policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        return Response(content, media_type="image/svg+xml", headers={"content-security-policy": policy})

    async def events(self, request: Request) -> Response:
        """Stream of the versions of the state, after the one that a page has."""
        if self._reader.viewers >= MAX_VIEWERS:
            raise HTTPException(503, f"{MAX_VIEWERS} pages receive updates already; reload this one instead.")
        return StreamingResponse(self._stream(request.query_params.get("after", "")), media_type="text/event-stream")

    async def _stream(self, after: str) -> AsyncIterator[str]:
        versions = self._reader.versions(after)
        following = asyncio.ensure_future(anext(versions))
        try:
            while True:
                done, _ = await asyncio.wait({following}, timeout=_HEARTBEAT)
                if done:
                    try:
                        version = following.result()
                    except StopAsyncIteration:
                        return
                    yield f"event: changed\ndata: {version}\n\n"
                    following = asyncio.ensure_future(anext(versions))
                else:
                    yield ": \n\n"
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await versions.aclose()

    async def failed(self, request: Request, error: Exception) -> Response:
        """Page of an HTTP error."""
        assert isinstance(error, HTTPException)  # noqa: S101
        return await self._error(request, error.status_code, error.detail, "")

    async def rejected(self, request: Request, error: Exception) -> Response:
        """Page of an error with a fix."""
        assert isinstance(error, TrainyardError)  # noqa: S101
        return await self._error(request, 422, "\n".join([error.message, *map(str, error.findings)]), error.fix)

    async def broken(self, request: Request, error: Exception) -> Response:
        """Page of an error in the console itself, which the command logs."""
        return await self._error(request, 500, f"{type(error).__name__}: this page has an error", "report it")

    async def _error(self, request: Request, status: int, message: str, fix: str) -> Response:
        if request.headers.get("accept", "").startswith("text/event-stream"):
            return PlainTextResponse(message, status)
        template = self._environment.get_template("error.html")
        text = template.render({**self._common(request), "live": False}, status=status, message=message, fix=fix)
        return HTMLResponse(text, status)
