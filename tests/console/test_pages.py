"""Pages of a recorded cluster: content, escaping, no external asset, and errors."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.recorded_platform import HOSTILE, Viewer, console, guarded, platform, signed_in
from tests.explain.recorded_clusters import NOW, Cluster
from tests.support import ROOT
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.insight.console import web_application
from trainyard.insight.console.plan_limit import MAX_SETTINGS
from trainyard.insight.console.recorded_source import RecordedSource
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.views.job_list import PAGE

JOB = "/jobs/trainjob/language/waits"
PAGES = ("/", "/queues", "/fabric", "/jobs", JOB, "/runtimes", "/scenarios")
REPORT = {
    "scenario": "two-tenants",
    "ok": True,
    "seconds": 100,
    "jobs": [
        {
            "name": HOSTILE, "queue": "vision", "pods": 2, "arrived": 0, "started": 10, "waited": 10, "restarts": 0,
            "state": "finished",
        }
    ],
    "runs": [{"job": HOSTILE, "node": "a", "began": 10, "ended": 100, "ending": "finished"}],
    "expectations": [{"path": "expect[0]", "instant": "end", "expected": "runs", "observed": "runs", "holds": True}],
}  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("reports")
    (folder / "two.json").write_text(json.dumps(REPORT))
    (folder / "two.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (folder / "other.json").write_text("[]")
    (folder.parent / "outside.json").write_text(json.dumps(REPORT))
    with console(platform(), ScenarioFolder(folder)) as client:
        signed_in(client)
        yield client


def page(client: Viewer, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def plain(html: str) -> str:
    """Return the text of a page in one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_now_says_whether_the_platform_is_well(client: Viewer) -> None:
    text = plain(page(client, "/"))
    assert "No issues found." in text
    assert "used 40 free 24 lost 0" in text
    assert "volcano-scheduler 1 of 1 runs" in text
    assert "trainyard-webhooks 300 trainyard" in text
    assert "Waiting 1 Running 1" in text


def test_now_lists_what_is_wrong() -> None:
    cluster = platform(days=3)
    cluster.find("Deployment", "volcano-scheduler")["status"] = {}
    cluster.find("Node", "rack-1-node-3")["status"]["conditions"][0]["status"] = "False"
    cluster.without(cluster.find("Deployment", "volcano-admission"))
    with console(cluster) as client:
        signed_in(client)
        text = plain(page(client, "/"))
    assert "4 issues" in text
    assert "volcano-system/volcano-scheduler does not run: 0 of 1 replicas are ready" in text
    assert "Deployment volcano-admission does not exist" in text
    assert "certificate authority trainyard-webhooks ends in 3 days" in text
    assert "1 node not ready" in text
    assert "used 40 free 16 lost 8" in text


@pytest.mark.parametrize(
    ("days", "said"), [(0, "ends today"), (1, "ends in 1 day"), (-1, "ended today"), (-4, "ended 3 days ago")]
)
def test_an_authority_that_ended_is_said_to_have_ended(days: int, said: str) -> None:
    with console(platform(days=days)) as client:
        signed_in(client)
        assert f"certificate authority trainyard-webhooks {said}" in plain(page(client, "/"))


def test_queues_show_shares_and_gangs_that_wait(client: Viewer) -> None:
    html = page(client, "/queues")
    assert 'aria-label="vision: 40 allocated, 32 deserved, 8 borrowed nvidia.com/gpu"' in html
    assert 'aria-label="language: 0 allocated, 32 deserved, 8 lent nvidia.com/gpu"' in html
    assert f'<a href="{JOB}">language/waits</a> (32 nvidia.com/gpu)' in html


def test_a_pasted_settings_file_shows_the_plan(client: Viewer) -> None:
    queues = {"research": (64, "root"), "vision": (40, "research"), "language": (24, "research")}
    text = "---\n".join(
        json.dumps(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"parent": parent, "deserved": {"nvidia.com/gpu": gpus}, "capability": {"nvidia.com/gpu": 64}},
            }
        )
        + "\n"
        for name, (gpus, parent) in queues.items()
    )
    pasted = client.post("/queues/plan", data={"settings": text})
    uploaded = client.post("/queues/plan", files={"file": ("queues.yaml", text)}, data={"settings": ""})
    assert pasted.status_code == uploaded.status_code == 200
    assert plain(pasted.text) == plain(uploaded.text)
    assert "Gains: vision. Losses: language." in plain(pasted.text)
    assert "deserved nvidia.com/gpu 32 → 40" in plain(pasted.text)


def test_the_settings_of_a_stack_show_the_plan(client: Viewer) -> None:
    text = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
    answer = client.post("/queues/plan", files={"file": ("Pulumi.local.yaml", text)})
    assert answer.status_code == 200
    assert "Changed queues" in answer.text
    assert "capability memory no limit → 8Ti" in plain(answer.text)


def test_invalid_settings_are_an_error_with_its_place(client: Viewer) -> None:
    answer = client.post("/queues/plan", data={"settings": f"config: [{HOSTILE}"})
    assert answer.status_code == 422
    assert "the settings" in answer.text
    assert "<script>alert" not in answer.text


def test_settings_that_are_too_large_are_rejected(client: Viewer) -> None:
    assert client.post("/queues/plan", data={"settings": "x" * (3 * MAX_SETTINGS)}).status_code == 413
    large = client.post("/queues/plan", files={"file": ("a.yaml", "x" * (MAX_SETTINGS + 1))})
    assert large.status_code in (400, 413)


def test_the_fabric_shows_nodes_and_what_fits(client: Viewer) -> None:
    html = page(client, "/fabric?color=job")
    assert "rack-0-node-0: vision/wide" in html
    assert "vision/wide: 5 nodes in several racks" in html
    assert "rack 3 rack-1 3" in plain(html)
    assert "rack-0-node-0" not in page(client, "/fabric?domain=rack-1")
    assert page(client, "/fabric?domain=none&color=%22%3E&zoom=-1").count("<svg") == page(client, "/fabric").count(
        "<svg"
    )


def test_a_domain_leads_to_its_neighbors_and_to_those_below(client: Viewer) -> None:
    html = page(client, "/fabric?domain=rack-0&color=job")
    assert 'rel="next" href="/fabric?color=job&amp;domain=rack-1"' in html
    assert 'rel="prev"' not in html
    assert '<a href="/fabric?color=state&amp;domain=rack-1"><text' in page(client, "/fabric?domain=spine-0")


def test_timelines_are_drawn_with_their_text(client: Viewer) -> None:
    drawn = re.compile(r'role="img" aria-label="(?:waiting|running|suspended)[^"]*, (?:until now|ended)"')
    assert drawn.search(page(client, "/jobs"))
    html = page(client, JOB)
    label = drawn.search(html)
    assert label is not None
    assert html.count(label[0].partition('aria-label="')[2].rstrip('"')) == 2, "the text is on the page, too"


def test_zoom_changes_the_size_alone(client: Viewer) -> None:
    sizes = [
        re.search(r'<svg xmlns[^>]* width="(\d+)"[^>]*viewBox="([^"]+)"', page(client, f"/fabric?zoom={z}"))
        for z in (100, 200)
    ]
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert int(sizes[1][1]) == 2 * int(sizes[0][1])
    assert sizes[0][2] == sizes[1][2]


def test_jobs_are_filtered_and_sorted(client: Viewer) -> None:
    assert "1 of 2 jobs" in plain(page(client, "/jobs?state=Waiting"))
    assert "1 of 2 jobs" in plain(page(client, "/jobs?words=WIDE+vision"))
    assert "0 of 2 jobs" in plain(page(client, "/jobs?words=wide&state=Waiting"))
    assert "2 of 2 jobs" in plain(page(client, "/jobs?sort=none&page=99999999999"))
    names = re.findall(r'<a href="/jobs/trainjob/[^"]+">([^<]+)</a>', page(client, "/jobs?sort=devices"))
    assert names == ["vision/wide", "language/waits"]


def test_a_job_has_its_explanation_pods_events_and_what_was_rendered(client: Viewer) -> None:
    text = plain(page(client, JOB))
    assert "TrainJob language/waits waits: the job requests 32 nvidia.com/gpu" in text
    assert "Fix:" in text
    assert "Runtime torch-distributed-gang (installed)" in text
    assert "node 4 train:1 node: cpu 4, nvidia.com/gpu 8 API_KEY" in text
    assert "2026-11-24 11:50:00 created" in text
    assert "waits-node-0-3 Pending" in text
    assert "rack-0-node-1 rack-0" in plain(page(client, "/jobs/trainjob/vision/wide"))


def test_no_page_has_values_of_variables(client: Viewer) -> None:
    assert all("s3cret" not in page(client, path) for path in PAGES)


def test_runtimes_have_aliases_deprecations_and_users(client: Viewer) -> None:
    text = plain(page(client, "/runtimes"))
    assert "torch-distributed alias of torch-distributed-1.0" in text
    assert "torch-distributed-1.0 1.0 (also torch-distributed)" in text
    assert "deprecated, guaranteed until 2027-01-31" in text
    assert "torch-distributed-gang supported language/waits , vision/wide" in text


def test_a_report_of_a_scenario_has_its_timeline(client: Viewer) -> None:
    assert '<a href="/scenarios/two">two</a>' in page(client, "/scenarios")
    html = page(client, "/scenarios/two")
    assert "all expectations hold" in html
    assert '<rect class="segment waiting" x="0" width="100"' in html
    assert '<rect class="segment running" x="100" width="900"' in html
    drawing = client.get("/scenarios/two/drawing")
    assert drawing.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in drawing.headers["content-security-policy"]
    assert "script-src" not in drawing.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["none", "..%2foutside", "%2e%2e%2foutside", "two.json", "..", "other%00"])
def test_other_files_are_not_served(client: Viewer, name: str) -> None:
    for path in (f"/scenarios/{name}", f"/scenarios/{name}/drawing"):
        assert client.get(path).status_code in (303, 307, 404) or "Scenarios" in client.get(path).text
        assert "two-tenants" not in client.get(path).text


def test_a_file_that_is_no_report_is_an_error(client: Viewer) -> None:
    answer = client.get("/scenarios/other")
    assert answer.status_code == 422
    assert "other is no report" in answer.text


@pytest.mark.parametrize(
    "path", [*PAGES, "/scenarios/two", "/fabric?color=job&domain=%3Cscript%3Ealert(3)%3C/script%3E"]
)
def test_texts_of_tenants_are_escaped(client: Viewer, path: str) -> None:
    html = page(client, path)
    for forbidden in ("<script>alert", "<img src=x", "\x1b", "\u202e", ">49<"):
        assert forbidden not in html
    if path == JOB:
        assert html.count("&lt;script&gt;alert(1)") >= 4
    assert not re.search(r"\son[a-z]+=|javascript:|style=", re.sub(r"&lt;.*?&gt;", "", html))


@pytest.mark.parametrize(
    "path", ["/jobs?words=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/jobs/trainjob/%3Cscript%3E/x"]
)
def test_texts_of_the_address_are_escaped(client: Viewer, path: str) -> None:
    html = client.get(path).text
    assert "<script>" not in html
    assert '"><script' not in html


@pytest.mark.parametrize("path", PAGES)
def test_pages_have_no_external_asset_and_a_sound_structure(client: Viewer, path: str) -> None:
    html = page(client, path)
    links = re.findall(r'(?:src|href|action|hx-get|data-events)="([^"]*)"', html)
    assert links
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in links)
    for asset in [link for link in links if link.startswith("/assets/")]:
        assert client.get(asset).status_code == 200
    for landmark in ("<header>", "<main>", '<nav aria-label="Pages">', '<html lang="en">', 'name="viewport"', "<h1>"):
        assert html.count(landmark) == 1
    assert html.count(' aria-current="page"') == 1
    identifiers = re.findall(r'\sid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))


def test_missing_pages_and_jobs_are_404(client: Viewer) -> None:
    for path in (
        "/nothing",
        "/jobs/trainjob/vision/none",
        "/jobs/secret/vision/wide",
        "/jobs/trainjob/vision/wide/logs",
    ):
        assert client.get(path).status_code == 404


def test_logs_of_a_snapshot_are_an_error_and_only_containers_of_the_job_are_read(client: Viewer) -> None:
    answer = client.get(f"{JOB}/logs?pod=waits-node-0-0&container=node")
    assert answer.status_code == 422
    assert "A snapshot has no logs" in answer.text
    for query in ("pod=wide-node-0-0&container=node", "pod=waits-node-0-0&container=other", "pod=../x&container=node"):
        assert client.get(f"{JOB}/logs?{query}").status_code == 404


def test_five_hundred_waiting_jobs_are_on_pages_of_a_hundred() -> None:
    cluster = Cluster(racks=2)
    for number in range(500):
        cluster.job(f"job-{number}", "vision", pods=1, minutes=600 - number)
    with console(cluster) as client:
        signed_in(client)
        html = page(client, "/jobs?sort=state")
        assert "500 of 500 jobs" in plain(html)
        assert html.count('<tr><th scope="row">') == PAGE
        assert "page 1 of 5" in plain(html)
        assert "1 of 500" in plain(html)
        assert "job-499" in page(client, "/jobs?sort=state&page=5")
        assert "Reasons of 0 of 500 waiting jobs are known so far" in plain(page(client, "/"))
        assert "vision: 500 waiting" in plain(page(client, "/queues"))


def test_an_empty_cluster_has_all_pages() -> None:
    cluster = Cluster(racks=0, nodes_per_rack=0)
    cluster.bodies = [cluster.platform]
    with console(cluster) as client:
        signed_in(client)
        for path in ("/", "/queues", "/fabric", "/jobs", "/runtimes", "/scenarios"):
            page(client, path)


OVERVIEWS = ("/", "/queues", "/fabric", "/fabric?color=job", "/jobs", "/runtimes", "/scenarios")
INVENTED = {
    Kind.NODE: ("No node offers devices", " 0 nodes", "no limit", "no HyperNodes", "Pods that fit"),
    Kind.POD: ("used 0", "used 40", "free 24", "free 64", ": free ", "Pods with 8", "0 allocated"),
    Kind.QUEUE: ("No gang waits", "default", "0 allocated"),
    Kind.POD_GROUP: ("No gang waits", "language 1 of 1 ", "0 allocated"),
    Kind.HYPER_NODE: ("no HyperNodes",),
    Kind.TRAIN_JOB: ("No job waits.", "jobs 0"),
    Kind.DEPLOYMENT: ("none found",),
    Kind.CLUSTER_RUNTIME: ("0 installed runtimes Runtime", "Used by none"),
}
"""Texts that would be wrong, or not known, where a kind may not be read."""


@pytest.mark.parametrize("kind", INVENTED)
def test_what_depends_on_a_kind_that_may_not_be_read_is_unknown(kind: str) -> None:
    whole = platform().observed
    objects = tuple(each for each in whole.objects if kind_of(each) != kind)
    source = RecordedSource(Observed(whole.now, objects, frozenset({kind})), "cluster.json")
    with guarded(source) as client:
        signed_in(client)
        for path in OVERVIEWS:
            html = page(client, path)
            text = plain(html).replace("Certificate authorities", "")
            assert f"Not read in all namespaces: {kind.partition('.')[0]}." in text, path
            found = [each for each in INVENTED[kind] if each in text or each in html]
            assert found == [], (path, text)
        answer = client.post("/queues/plan", data={"settings": "{}"})
        assert "Not read in all namespaces" in answer.text
        if kind in (Kind.QUEUE, Kind.NODE, Kind.POD_GROUP, Kind.POD):
            assert plain(client.get("/queues").text).count("nknown") >= 1
            settings = (ROOT / "stacks" / "Pulumi.local.yaml").read_text()
            answer = client.post("/queues/plan", data={"settings": settings})
            assert "The plan is unknown: not all " in answer.text


def test_every_page_says_since_when_its_state_may_be_old() -> None:
    source = RecordedSource(platform().observed, "live")
    source.fault = "Pods are not up to date"
    source.confirmed = NOW - datetime.timedelta(minutes=3)
    with guarded(source) as client:
        signed_in(client)
        for path in (*OVERVIEWS, JOB):
            text = plain(page(client, path))
            assert "The state may be old: Pods are not up to date" in text
            assert "State of 2026-11-24 11:57:00 UTC" in text


def test_pages_update_themselves_whatever_their_name_is(tmp_path: Path) -> None:
    cluster = platform()
    cluster.job("logs", "vision")
    (tmp_path / "a#b.json").write_text(json.dumps(REPORT))
    with console(cluster, ScenarioFolder(tmp_path)) as client:
        signed_in(client)
        for path in ("/jobs/trainjob/vision/logs", "/scenarios/a%23b"):
            html = page(client, path)
            assert f'hx-get="{path}"' in html
            assert "data-events=" in html


def test_an_error_of_the_console_has_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("of the console")

    monkeypatch.setattr(web_application, "runtime_rows", fail)
    with console(platform()) as client:
        signed_in(client)
        answer = client.get("/runtimes")
    assert answer.status_code == 500
    assert "KeyError: this page has an error" in answer.text
    assert answer.headers["content-security-policy"]


def test_a_report_with_odd_values_has_a_page(tmp_path: Path) -> None:
    for name, extra in (("none", {}), ("odd", {"started": 10**400, "name": 7, "pods": [], "arrived": -1})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"scenario": "s", "jobs": [extra], "expectations": [extra]}))
    with console(platform(), ScenarioFolder(tmp_path)) as client:
        signed_in(client)
        assert all("Timeline" in page(client, f"/scenarios/{name}") for name in ("none", "odd"))
