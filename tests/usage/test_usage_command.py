"""`trainyard usage`: sums by tenant, queue, job and runtime, and what they leave out."""

from __future__ import annotations

import asyncio
import csv
import datetime
import io
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiohttp import web

from tests.kube.kubeconfigs import kubeconfig
from tests.support import in_process
from tests.usage.brute_force import GPU
from tests.usage.test_record import body
from trainyard import pki
from trainyard.insight.usage.account import Gap, Span, Sums, Usage
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, QueueTenants, Share, UsageGang
from trainyard.insight.usage.record import HEAD, Head, names_of
from trainyard.insight.usage.usage_book import UsageBook
from trainyard.insight.usage.usage_table import By, UsageRow, as_csv, as_text
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client

HOUR = 3600
DAY = 1_790_812_800
"""2026-10-01."""
VISION = UsageGang("vision", "TrainJob", "big", "vision", "torch-2.8")
LANGUAGE = UsageGang("language", "Job", "=train", "language")
SPAN = ("--since", "2026-10-01", "--until", "2026-10-02")
Body = dict[str, Any]


def record(gaps: tuple[Gap, ...] = (), until: int = DAY + 24 * HOUR) -> list[Body]:
    """Vision borrows 8 of 16 devices of language for two hours, until language takes them back; speech shares."""
    ledger = Ledger(DAY)
    ledger.share(DAY, "vision", Share({GPU: 8000}))
    ledger.share(DAY, "language", Share({GPU: 16000}))
    ledger.hold(DAY, "a", Holding(VISION, {GPU: 8000}, True))
    ledger.hold(DAY + HOUR, "b", Holding(VISION, {GPU: 8000}, True))
    ledger.hold(DAY + 2 * HOUR, "c", Holding(LANGUAGE, {GPU: 16000}))
    ledger.hold(DAY + 3 * HOUR, "b", None, taken_back=True)
    ledger.hold(DAY + 3 * HOUR, "c", Holding(LANGUAGE, {GPU: 16000}, True))
    ledger.hold(DAY + 4 * HOUR, "a", None)
    ledger.hold(DAY + 4 * HOUR, "c", None)
    book = UsageBook(DAY)
    book.add(ledger.drain())
    book.own(DAY, [QueueTenants(name, (name,)) for name in ("language", "vision")])
    book.advance(DAY + 5 * HOUR)
    return [body(Head(DAY, until, gaps)), *(body(each, DAY + 5 * HOUR) for each in book.changed.values())]


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(kubeconfig(tmp_path, "https://127.0.0.1:1", {"token": "secret"}))


def usage(config: str, *arguments: str, bodies: list[Body] | None = None) -> Any:
    found = record() if bodies is None else bodies
    with mock.patch.object(Client, "list", return_value=found):
        return in_process("usage", "--kubeconfig", config, *arguments)


def answered(config: str, *arguments: str) -> Any:
    done = usage(config, *SPAN, "-o", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tenants_have_what_their_jobs_and_queues_have(config: str) -> None:
    found = answered(config)
    assert found["rows"] == [
        {
            **{"tenant": "vision", "resource": GPU, "asked": 48, "allocated": 48, "borrowed": 16, "lent": 0},
            **{"waited": 0, "takenBack": 16},
        },
        {
            **{"tenant": "language", "resource": GPU, "asked": 32, "allocated": 16, "borrowed": 0, "lent": 16},
            **{"waited": 16, "takenBack": 0},
        },
    ]
    assert found["totals"] == [
        {
            **{"resource": GPU, "asked": 80, "allocated": 64, "borrowed": 16, "lent": 16},
            **{"waited": 16, "takenBack": 16},
        }
    ]
    assert found["span"] == {"from": "2026-10-01T00:00:00Z", "to": "2026-10-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("queue", [{"queue": "vision"}, {"queue": "language"}]),
        ("runtime", [{"runtime": "torch-2.8"}, {"runtime": ""}]),
        (
            "job",
            [
                {"tenant": "vision", "job": "trainjob/big", "queue": "vision", "runtime": "torch-2.8"},
                {"tenant": "language", "job": "job/=train", "queue": "language", "runtime": ""},
            ],
        ),
    ],
)
def test_each_way_of_summing_has_its_columns(config: str, by: str, names: list[Mapping[str, str]]) -> None:
    rows = answered(config, "--by", by)["rows"]
    assert [{name: row[name] for name in expected} for row, expected in zip(rows, names, strict=True)] == names
    assert [row["allocated"] for row in rows] == [48, 16]
    assert (rows[0]["lent"] is None) == (by != "queue"), "jobs and runtimes lend nothing"


def test_the_table_is_for_people(config: str) -> None:
    done = usage(config, *SPAN, "--by", "queue")
    assert done.stdout.splitlines() == [
        "Device-hours from 2026-10-01T00:00:00Z to 2026-10-02T00:00:00Z",
        "queue     resource        asked  allocated  borrowed  lent  taken back  waited",
        "vision    nvidia.com/gpu     48         48        16     0          16       0",
        "language  nvidia.com/gpu     32         16         0    16           0      16",
        "total     nvidia.com/gpu     80         64        16    16          16      16",
    ]
    assert done.stderr == ""


def test_csv_has_no_totals_and_no_formulas(config: str) -> None:
    done = usage(config, *SPAN, "--by", "job", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["job"], row["asked"], row["lent"]) for row in rows] == [
        ("trainjob/big", "48", ""),
        ("job/=train", "32", ""),
    ]
    assert "=train" not in [cell for row in rows for cell in row.values()]


def test_names_have_no_effect_in_a_spreadsheet_or_a_terminal() -> None:
    names = {"tenant": "\t=1", "job": "\rx", "queue": "\x1b[31m", "runtime": "a\nb"}
    found = [UsageRow(names, "=gpu"), UsageRow({}, "=gpu")]
    (row,) = csv.DictReader(io.StringIO(as_csv(By.JOB, found)))
    assert not [cell for cell in row.values() if cell.startswith(("=", "\t", "\r"))]
    text = as_text(Usage(Span(0, 1), {}, {}), By.JOB, found)
    assert len(text.splitlines()) == 4
    assert "\x1b" not in text


def test_what_is_below_zero_is_rounded_as_what_is_above() -> None:
    found = [UsageRow({"tenant": "vision"}, GPU, Sums(0, 18_000, 0, 0))]
    assert as_csv(By.TENANT, found).splitlines()[1] == f"vision,{GPU},0,0.005,0,,0,-0.005"


def test_a_part_of_an_hour_is_rounded_only_where_it_is_shown() -> None:
    found = [UsageRow({"tenant": "vision"}, GPU, Sums(8000, 8000, 0, 0))]
    assert as_csv(By.TENANT, found).splitlines()[1] == f"vision,{GPU},0.002,0.002,0,,0,0"


def test_a_span_that_begins_or_ends_within_a_day_is_of_whole_days_and_says_so(config: str) -> None:
    done = usage(config, "--since", "2026-10-01T03:00Z", "--until", "2026-10-01T00:00:01Z", "-o", "csv")
    assert done.returncode == 2
    done = usage(config, "--since", "2026-10-01", "--until", "2026-10-01T00:00:01Z", "-o", "csv")
    assert "vision,nvidia.com/gpu,48,48,16,0,16,0" in done.stdout
    assert done.stderr.splitlines() == [
        "The record has whole days (UTC): this is from 2026-10-01T00:00:00Z to 2026-10-02T00:00:00Z."
    ]


def test_a_tenant_sees_only_its_own(config: str) -> None:
    found = answered(config, "-n", "language")
    assert [row["tenant"] for row in found["rows"]] == ["language"]
    assert found["totals"][0]["asked"] == 32


def test_who_may_not_list_the_record_reads_a_part_of_it_by_name(config: str) -> None:
    bodies = {body["metadata"]["name"]: body for body in record()}
    asked: list[str] = []

    async def find(_: Client, resource: object, name: str, *, namespace: str) -> Body | None:
        assert namespace == "kubeflow-system"
        asked.append(name)
        return bodies.get(name)

    forbidden = ApiError(403, "Forbidden", "configmaps is forbidden")
    with mock.patch.object(Client, "list", side_effect=forbidden), mock.patch.object(Client, "find", find):
        done = in_process("usage", "--kubeconfig", config, *SPAN, "-n", "vision", "-o", "json")
        everything = in_process("usage", "--kubeconfig", config, *SPAN)
    assert [(row["tenant"], row["borrowed"]) for row in json.loads(done.stdout)["rows"]] == [("vision", 16)]
    assert set(asked) == {HEAD, *names_of(""), *names_of("vision")}
    assert (everything.returncode, "Fix: name your tenant with --namespace" in everything.stderr) == (2, True)


def test_what_is_not_recorded_is_said(config: str) -> None:
    bodies = record((Gap(DAY + 5 * HOUR, DAY + 6 * HOUR),), until=DAY + 20 * HOUR)
    done = usage(config, "--since", "2026-09-30", "--until", "2026-10-02", bodies=bodies)
    assert done.stderr.splitlines() == [
        "The record is complete from 2026-10-01T00:00:00Z on.",
        "Recorded until 2026-10-01T20:00:00Z.",
        "Not everything was recorded from 2026-10-01T05:00:00Z to 2026-10-01T06:00:00Z: jobs that ended then count up "
        "to its start.",
    ]
    found = json.loads(usage(config, *SPAN, "-o", "json", bodies=bodies).stdout)
    assert found["gaps"] == [{"from": "2026-10-01T05:00:00Z", "to": "2026-10-01T06:00:00Z"}]
    assert found["recorded"]["to"] == "2026-10-01T20:00:00Z"


def test_a_span_without_devices_is_no_error(config: str) -> None:
    done = usage(config, "--since", "2026-09-30", "--until", "2026-10-01")
    assert (done.returncode, "No job asked for a device." in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--last", "soon"), "--last 'soon' is not a duration"),
        (("--last", "\u0667d"), "is not a duration"),
        (("--since", "0001-01-01"), "is not between 1970 and 9999"),
        (("--until", "9999-12-31T23:59:59-14:00"), "is not between 1970 and 9999"),
        (("--since", "2999-01-01", "--until", "2999-01-02"), "The span has not begun"),
        (("-n", "visoin"), "The record has no tenant 'visoin'"),
        (("--prometheus", "http://me:secret@127.0.0.1:1"), "No answer from Prometheus at http://127.0.0.1:1: "),
        (("--since", "yesterday"), "--since 'yesterday' is not a time"),
        (("--since", "2026-10-02", "--until", "2026-10-01"), "The span ends before it starts"),
        (("--last", "1d", "--since", "2026-10-02"), "--last and --since exclude each other"),
        (("--prometheus", "http://127.0.0.1:1", "--by", "job"), "have no names of jobs"),
        (("--prometheus", "http://127.0.0.1:1"), "No answer from Prometheus at http://127.0.0.1:1"),
    ],
)
def test_invalid_options_have_a_fix(config: str, arguments: tuple[str, ...], said: str) -> None:
    done = usage(config, *arguments)
    assert (done.returncode, said in done.stderr, "Fix: " in done.stderr) == (2, True, True), done.stderr


def test_no_record_has_a_fix(config: str) -> None:
    done = usage(config, bodies=[])
    assert (done.returncode, "has no record of usage" in done.stderr) == (2, True)


def test_the_longest_span_begins_with_time_itself(config: str) -> None:
    done = usage(config, "--last", "999999w")
    assert done.returncode == 0, done.stderr


class Prometheus:
    """Answers queries as Prometheus does."""

    def __init__(self) -> None:
        self.queries: list[Mapping[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.certificate: tuple[Path, Path] | None = None
        self.answer: Any = None
        self.status = 422
        self.redirect = ""

    async def handle(self, request: web.Request) -> web.Response:
        sent = await request.post()
        self.queries.append({**sent})
        self.authorizations.append(request.headers.get("Authorization"))
        if self.redirect:
            raise web.HTTPTemporaryRedirect(self.redirect)
        if self.answer is not None:
            return web.json_response(self.answer, status=self.status)
        labels = {"namespace": "vision", "queue": "vision", "runtime": "torch-2.8", "resource": GPU}
        values = {"asked": "7200.5", "allocated": "3600", "borrowed": "0", "taken_back": "0"}
        result = [{"metric": {"measure": measure, **labels}, "value": [0, value]} for measure, value in values.items()]
        if "lent" in sent["query"]:
            result = [{"metric": {"queue": "language", "resource": GPU}, "value": [0, "1.8e3"]}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    async def ask(self, *arguments: str) -> Any:
        app = web.Application()
        app.router.add_post("/prefix/api/v1/query", self.handle)
        context = None
        if self.certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*self.certificate)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        url = f"http{'s' if context is not None else ''}://127.0.0.1:{runner.addresses[0][1]}/prefix/"
        try:
            return await asyncio.to_thread(in_process, "usage", "--prometheus", url, *SPAN, *arguments)
        finally:
            await runner.cleanup()


async def test_prometheus_is_a_source() -> None:
    server = Prometheus()
    done = await server.ask("--by", "queue", "-o", "csv")
    assert (done.returncode, done.stderr) == (0, "Estimated by Prometheus from its samples.\n")
    assert done.stdout.splitlines()[1:] == [
        "vision,nvidia.com/gpu,2,1,0,0,0,1",
        "language,nvidia.com/gpu,0,0,0,0.5,0,0",
    ]
    assert [query["time"] for query in server.queries] == [str(DAY + 24 * HOUR)] * 2
    assert "increase(trainyard_device_seconds_total[86400s])" in server.queries[0]["query"]


async def test_a_tenant_of_prometheus_is_quoted() -> None:
    server = Prometheus()
    await server.ask("-n", 'a"} or up{x="')
    assert r'{namespace="a\"} or up{x=\""}' in server.queries[0]["query"]


async def test_an_error_of_prometheus_is_reported() -> None:
    server = Prometheus()
    server.answer = {
        "status": "error",
        "errorType": "execution",
        "error": "query would load too many samples",
    }
    done = await server.ask()
    assert (done.returncode, "too many samples" in done.stderr, "use a shorter span" in done.stderr) == (2, True, True)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e999999999", "-1"])
async def test_a_value_that_is_no_number_of_seconds_is_reported(value: str) -> None:
    server = Prometheus()
    result = [{"metric": {"measure": "asked"}, "value": [0, value]}]
    server.answer, server.status = {"status": "success", "data": {"result": result}}, 200
    done = await server.ask()
    assert (done.returncode, "is not one of Prometheus" in done.stderr) == (2, True)


async def test_the_status_of_an_answer_that_is_none_of_prometheus_is_said() -> None:
    server = Prometheus()
    server.answer, server.status = ["please sign in"], 401
    done = await server.ask()
    assert (done.returncode, "is not one of Prometheus (HTTP 401)" in done.stderr) == (2, True)


async def test_an_endless_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard.insight.usage_reader._MOST_BYTES", 10)
    done = await Prometheus().ask()
    assert (done.returncode, "has more than 10 bytes" in done.stderr) == (2, True)


async def test_a_token_and_a_certificate_authority_of_prometheus(tmp_path: Path) -> None:
    lifetime = {"now": datetime.datetime.now(datetime.UTC), "lifetime": datetime.timedelta(days=1)}
    authority = pki.authority("test", **lifetime)
    issued = pki.issue(authority, "prometheus", ip_addresses=["127.0.0.1"], server=True, **lifetime)
    (tmp_path / "tls.crt").write_bytes(issued.certificate)
    (tmp_path / "tls.key").write_bytes(issued.key)
    ca, token = tmp_path / "ca.crt", tmp_path / "token"
    ca.write_bytes(authority.certificate)
    token.write_text("s3cret\n")
    server = Prometheus()
    server.certificate = (tmp_path / "tls.crt", tmp_path / "tls.key")
    options = ("--prometheus-token-file", str(token))
    refused = await server.ask(*options)
    assert (refused.returncode, "--prometheus-ca-file" in refused.stderr) == (2, True)
    assert server.queries == []
    done = await server.ask(*options, "--prometheus-ca-file", str(ca), "-o", "csv")
    assert done.returncode == 0, done.stderr
    assert server.authorizations == ["Bearer s3cret"] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--prometheus", "http://prometheus:9090", "--prometheus-token-file", "{token}"), "only sent over https"),
        (("--prometheus", "https://prometheus", "--prometheus-token-file", "{folder}/none"), "cannot be read"),
        (("--prometheus", "https://prometheus", "--prometheus-token-file", "{empty}"), "contains no token"),
        (("--prometheus", "https://prometheus", "--prometheus-token-file", "{lines}"), "contains no token"),
        (("--prometheus", "https://prometheus", "--prometheus-ca-file", "{token}"), "contains no certificate"),
        (("--prometheus-ca-file", "{token}"), "without --prometheus"),
    ],
)
def test_options_of_prometheus_that_cannot_be_used_have_a_fix(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    files = {"token": "s3cret", "empty": " ", "lines": "a\nb"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    places = {name: str(tmp_path / name) for name in files} | {"folder": str(tmp_path)}
    done = in_process("usage", *SPAN, *(each.format(**places) for each in arguments))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Fix: " in done.stderr
    assert "s3cret" not in done.stderr


async def test_a_redirect_of_prometheus_is_not_followed(tmp_path: Path) -> None:
    """It would turn the query into another request, and send the token to another server."""
    server = Prometheus()
    server.redirect = "http://127.0.0.1:1/elsewhere"
    done = await server.ask()
    assert (done.returncode, "redirects to http://127.0.0.1:1/elsewhere" in done.stderr) == (2, True)
