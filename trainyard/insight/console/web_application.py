"""Pages of the console: one function a page, which asks a view model and fills a template."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import jinja2
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from markupsafe import Markup

from trainyard.checks.printable_text import printable_lines
from trainyard.cluster_state.observed import Kind
from trainyard.errors import TrainyardError
from trainyard.insight.console.asset_lock import ASSETS
from trainyard.insight.console.page_headers import confine
from trainyard.insight.console.plan_limit import MAX_SETTINGS, PlanLimit
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.shared_reader import MAX_VIEWERS, SharedReader, TooManyViewersError
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

_LOG = logging.getLogger(__name__)
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_QUEUES: Final = 500
_HEARTBEAT: Final = 15.0
_ASSET_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FIELDS: Final = 2
"""Fields of a form, with the file."""
EVENTS: Final = "/events"
_FABRIC_KINDS: Final = {"nodes": Kind.NODE, "pods": Kind.POD, "domains": Kind.HYPER_NODE}
_NAMES: Final = (
    ("/", "Now"),
    ("/queues", "Queues"),
    ("/fabric", "Fabric"),
    ("/jobs", "Jobs"),
    ("/runtimes", "Runtimes"),
    ("/scenarios", "Scenarios"),
)


def application(guard: Middleware) -> web.Application:
    """Return the pages as an application.

    Parameters
    ----------
    guard
        Answers requests of strangers, and sets `PAGES` in others.
    """
    slashes = web.normalize_path_middleware(
        append_slash=False, remove_slash=True, merge_slashes=False, redirect_class=web.HTTPTemporaryRedirect
    )
    app = web.Application(
        middlewares=[guard, slashes, _error_pages], client_max_size=2 * MAX_SETTINGS, client_max_fields=_FIELDS
    )
    app.on_response_prepare.append(confine)
    for path, page in {
        "/": Pages.now,
        "/queues": Pages.queues,
        "/fabric": Pages.fabric,
        "/jobs": Pages.jobs,
        "/jobs/{kind}/{namespace}/{name}": Pages.job,
        "/jobs/{kind}/{namespace}/{name}/logs": Pages.logs,
        "/runtimes": Pages.runtimes,
        "/scenarios": Pages.scenarios,
        "/scenarios/{file}": Pages.scenario,
        "/scenarios/{file}/drawing": Pages.drawing,
        EVENTS: Pages.events,
    }.items():
        app.router.add_get(path, _handler(page))
    app.router.add_get("/assets/{name}", _asset)
    app.router.add_post("/queues/plan", _handler(Pages.plan))
    return app


async def _asset(request: web.Request) -> web.StreamResponse:
    file = ASSETS / request.match_info["name"]
    if file not in ASSETS.iterdir():
        raise web.HTTPNotFound
    return web.FileResponse(file, headers={"Content-Type": _ASSET_TYPES.get(file.suffix, "text/plain")})


def _handler(page: Callable[[Pages, web.Request], Awaitable[web.StreamResponse]]) -> Handler:
    """Return the handler of a page: that of the request's viewer."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await page(request[PAGES], request)

    return handle


@web.middleware
async def _error_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give an error its page; to a script, whose page stays open, only its text."""
    answer: web.HTTPError
    try:
        return await handler(request)
    except web.HTTPError as error:
        answer, fix = error, ""
    except TrainyardError as error:
        text, fix = "\n".join([error.message, *map(str, error.findings)]), error.fix
        answer = web.HTTPUnprocessableEntity(text=text)
    except Exception as error:
        _LOG.exception("a page has an error")
        answer, fix = web.HTTPInternalServerError(text=f"{type(error).__name__}: this page has an error"), "report it"
    message = answer.text = (answer.text or "").removeprefix(f"{answer.status}: ")
    pages: Pages | None = request.get(PAGES)
    if pages is not None and not request.headers.get("Accept", "").startswith("text/event-stream"):
        answer.text, answer.content_type = pages.error(request, answer.status, message, fix), "text/html"
    raise answer


async def form_of(request: web.Request) -> dict[str, str]:
    """Return the fields of a form, and the content of its file.

    Raises
    ------
    HTTPBadRequest
        It is not complete, or has too many fields.
    """
    try:
        form = await request.post()
        found = {name: field.file.read() if isinstance(field, web.FileField) else field for name, field in form.items()}
        if sum(isinstance(each, web.FileField) for each in form.values()) > 1:
            raise ValueError("several files")
    except (ValueError, LookupError, web.HTTPError):
        raise web.HTTPBadRequest(text="The form is not complete, or has too many fields.") from None
    return {name: each if isinstance(each, str) else str(each, "utf-8", "replace") for name, each in found.items()}


def _query_of(request: web.Request) -> dict[str, str]:
    return dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))


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


class Pages:
    """Pages about one state.

    Parameters
    ----------
    reader
        The state, which is started.
    scenarios
        Folder of reports of `trainyard simulate`.
    viewer
        Name of the user; empty: the pages do not show one.
    plans
        Limit of plans; None: one of its own.
    """

    def __init__(
        self,
        reader: SharedReader,
        scenarios: ScenarioFolder | None = None,
        viewer: str = "",
        *,
        plans: PlanLimit | None = None,
    ) -> None:
        self._plans = plans or PlanLimit()
        self._reader = reader
        self._scenarios = scenarios or ScenarioFolder(None)
        self._viewer = viewer
        self._environment = _environment()

    async def _page(self, request: web.Request, template: str, compute: Callable[[], dict[str, Any]]) -> web.Response:
        """Return a page; view model and template run in a thread, so that updates to other pages are not delayed."""
        common = self._common(request)

        def render() -> str:
            return self._environment.get_template(template).render({**common, **compute()})

        return web.Response(text=await asyncio.to_thread(render), content_type="text/html")

    def _common(self, request: web.Request) -> dict[str, Any]:
        source = self._reader.source
        return {
            "pages": _NAMES,
            "viewer": self._viewer,
            "signs_out": bool(self._viewer) and passed_token(request) is None,
            "live": request.method == "GET",
            "version": self._reader.version,
            "path": request.path,
            "address": request.rel_url.raw_path_qs,
            "source": source.name,
            "fault": source.fault or self._reader.fault,
            "unread": self._reader.view.unread,
            "requests": source.requests,
            "when": (source.confirmed or self._reader.view.now).strftime("%Y-%m-%d %H:%M:%S UTC"),
        }

    async def now(self, request: web.Request) -> web.Response:
        """Whether the platform is well."""
        samples = list(self._reader.history.samples)

        def compute() -> dict[str, Any]:
            view = self._reader.view
            return {"health": view.memo(("health", self._reader.version), partial(health, view)), "samples": samples}

        return await self._page(request, "now.html", compute)

    async def queues(self, request: web.Request) -> web.Response:
        """Queue tree with bars."""
        chosen = _query_of(request).get("resource", "")

        def compute() -> dict[str, Any]:
            view = self._reader.view
            resources = queue_resources(view)
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

    async def plan(self, request: web.Request) -> web.Response:
        """Effect of a pasted or uploaded settings file; nothing is written."""
        size = self._plans.size
        if request.content_length is None or request.content_length > 2 * size:
            raise web.HTTPRequestEntityTooLarge(size, text=f"The settings are larger than {size} bytes.")
        form = await form_of(request)
        content = form.get("file") or form.get("settings", "")
        if len(content.encode()) > size:
            raise web.HTTPRequestEntityTooLarge(size, text=f"The settings are larger than {size} bytes.")

        def compute() -> dict[str, Any]:
            with self._plans.one(self):
                after = snapshot_of_file(content, "the settings", stack_scheduling)
                return {"plan": settings_plan(self._reader.view, after)}

        return await self._page(request, "plan.html", compute)

    async def fabric(self, request: web.Request) -> web.Response:
        """Drawing of the fabric."""
        query = FabricQuery.of(_query_of(request))

        def compute() -> dict[str, Any]:
            view = self._reader.view
            unknown = {name: view.unread_of(kind) for name, kind in _FABRIC_KINDS.items()}
            return {"map": fabric_map(view, query), "colorings": COLORINGS, "zooms": ZOOMS, "unknown": unknown}

        return await self._page(request, "fabric.html", compute)

    async def jobs(self, request: web.Request) -> web.Response:
        """Table of jobs."""
        query = JobQuery.of(_query_of(request))
        return await self._page(
            request,
            "jobs.html",
            lambda: {
                "list": job_list(self._reader.view, query, self._reader.history.by_job),
                "sorts": tuple(SORTS),
            },
        )

    async def job(self, request: web.Request) -> web.Response:
        """One job."""
        key = "/".join(request.match_info[each] for each in ("kind", "namespace", "name"))

        def compute() -> dict[str, Any]:
            view = self._reader.view
            row = view.by_key.get(key)
            found = job_page(view, key, self._reader.history.steps(row.identity)) if row is not None else None
            if found is None:
                raise web.HTTPNotFound(text=f"{key} does not exist, or has ended and was deleted.")
            return {"job": found}

        return await self._page(request, "job.html", compute)

    async def logs(self, request: web.Request) -> web.Response:
        """Last lines of a container of a job's pod."""
        key = "/".join(request.match_info[each] for each in ("kind", "namespace", "name"))
        query = _query_of(request)
        pod, container = (query.get(each, "") for each in ("pod", "container"))
        found = await asyncio.to_thread(job_page, self._reader.view, key)
        if found is None or not any(each.name == pod and container in each.containers for each in found.pods):
            raise web.HTTPNotFound(text="This job has no such container.")
        try:
            text = await self._reader.source.logs(request.match_info["namespace"], pod, container)
        except (TransportError, CredentialsError) as error:
            raise TrainyardError(f"No logs: {error}", fix="check that the cluster answers") from error
        values = {"text": text, "pod": pod, "container": container, "row": found.row, "live": False}
        return await self._page(request, "logs.html", lambda: values)

    async def runtimes(self, request: web.Request) -> web.Response:
        """Installed runtimes."""
        return await self._page(request, "runtimes.html", lambda: {"rows": runtime_rows(self._reader.view)})

    async def scenarios(self, request: web.Request) -> web.Response:
        """Reports of scenarios."""
        return await self._page(
            request, "scenarios.html", lambda: {"folder": self._scenarios, "files": self._scenarios.names}
        )

    async def scenario(self, request: web.Request) -> web.Response:
        """One report."""
        file = request.match_info["file"]
        if file not in await asyncio.to_thread(lambda: self._scenarios.names):
            raise web.HTTPNotFound(text="This report does not exist.")
        return await self._page(request, "scenario.html", lambda: {"report": self._scenarios.report(file)})

    async def drawing(self, request: web.Request) -> web.Response:
        """Drawing of a scenario, as an image: its styles do not apply to the page."""
        content = await asyncio.to_thread(self._scenarios.drawing, request.match_info["file"])
        if content is None:
            raise web.HTTPNotFound(text="This drawing does not exist.")
        policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        return web.Response(body=content, content_type="image/svg+xml", headers={"Content-Security-Policy": policy})

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream of the versions of the state, after the one that a page has."""
        if self._reader.viewers >= MAX_VIEWERS:
            raise web.HTTPServiceUnavailable(
                text=f"{MAX_VIEWERS} pages receive updates already; reload this one instead."
            )
        if request.method == "HEAD":
            return web.Response(content_type="text/event-stream", charset="utf-8")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        with contextlib.suppress(ConnectionError, TooManyViewersError):
            await response.prepare(request)
            async with contextlib.aclosing(self._stream(_query_of(request).get("after", ""))) as events:
                async for event in events:
                    await response.write(event)
        return response

    async def _stream(self, after: str) -> AsyncGenerator[bytes, None]:
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
                    yield f"event: changed\ndata: {version}\n\n".encode()
                    following = asyncio.ensure_future(anext(versions))
                else:
                    yield b": \n\n"
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await versions.aclose()

    def error(self, request: web.Request, status: int, message: str, fix: str) -> str:
        """Page of an error."""
        template = self._environment.get_template("error.html")
        return template.render({**self._common(request), "live": False}, status=status, message=message, fix=fix)


PAGES: Final = web.RequestKey("pages", Pages)
"""The pages of the viewer of a request."""
