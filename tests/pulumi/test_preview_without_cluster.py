"""The stacks' preview as the CI kit runs it: no cluster, no state, the admission rules reviewed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.ci.pipelines import JobResult, run_github_job
from tests.ci.repository import Repository, runner
from tests.support import RARE_COLLECTION, ROOT
from trainyard.local.cluster.folders import cache_home, config_home
from trainyard.upstream import module_cache

pytestmark = pytest.mark.cluster

GITHUB = yaml.safe_load((ROOT / "ci" / "github-workflow.yaml").read_text())
PREVIEW = "Preview the stack"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A runner on which `pulumi/actions` has put the programs of Pulumi."""
    from trainyard.local.cluster.toolchain import Toolchain

    toolchain = Toolchain()
    toolchain.ensure()
    variables = runner(tmp_path_factory.mktemp("runner"))
    variables["PATH"] = ":".join([*map(str, toolchain.folders()), variables["PATH"]])
    variables |= {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}
    # Pulumi reads the home of the user account, whatever HOME is: without this, its log would not be left out.
    variables["PULUMI_HOME"] = f"{variables['HOME']}/.pulumi"
    variables |= RARE_COLLECTION
    return variables


def preview(repository: Repository, machine: dict[str, str], stack: str) -> JobResult:
    return run_github_job(GITHUB, "preview", repository.checkout, machine, {"matrix.stack": stack})


@pytest.mark.parametrize("stack", GITHUB["jobs"]["preview"]["strategy"]["matrix"]["stack"])
def test_a_stack_is_previewed_where_there_is_no_cluster(
    repository: Repository, machine: dict[str, str], stack: str
) -> None:
    repository.propose()
    result = preview(repository, machine, stack)
    said = result.step(PREVIEW).output
    assert not result.failed, result.output
    assert "No cluster to compare with; every resource is planned as a creation" in said
    assert "✅ trainyard@v" in said
    assert "to create" in said
    assert "Traceback" not in said


def test_settings_that_cannot_work_fail_the_preview(repository: Repository, machine: dict[str, str]) -> None:
    repository.propose()
    file = repository.checkout / "stacks" / "Pulumi.production.yaml"
    before = file.read_text()
    document = yaml.safe_load(before)
    document["config"]["trainyard:tenants"]["vision"]["queues"] = ["no-such-queue"]
    file.write_text(yaml.safe_dump(document))
    try:
        result = preview(repository, machine, "production")
    finally:
        file.write_text(before)
    assert result.failed
    assert "no-such-queue" in result.step(PREVIEW).output
    assert "Traceback" not in result.step(PREVIEW).output


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """A user with a home of their own, whose programs are built."""
    for name in ("home/.config/go/telemetry", "state"):
        (tmp_path / name).mkdir(parents=True)
    # Go counts its own runs in the user's folder.
    (tmp_path / "home" / ".config" / "go" / "telemetry" / "mode").write_text("off")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "KUBECONFIG"))}
    return {
        **inherited,
        "HOME": str(tmp_path / "home"),
        "TRAINYARD_CACHE_HOME": str(cache_home()),
        "TRAINYARD_CONFIG_HOME": str(config_home()),
        "TRAINYARD_STATE_HOME": str(tmp_path / "state"),
        "GOMODCACHE": str(module_cache()),
        "GOCACHE": str(tmp_path / "unused"),
    }


def trainyard(user: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainyard", *arguments]
    return subprocess.run(command, cwd=ROOT, env=user, capture_output=True, text=True, timeout=300, check=False)


def test_a_preview_without_cluster_ends_well_and_writes_nothing(user: dict[str, str], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    missing = trainyard(user, "preview", "--stack", "production")
    assert missing.returncode == 2
    assert "does not exist" in missing.stderr
    assert "--no-cluster" in missing.stderr
    found = trainyard(user, "preview", "--stack", "production", "--no-cluster", "-o", "json")
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert set(result["counts"]) - {"same"} == {"create"}
    assert result["counts"]["create"] > 200
    assert result["queues"] is None
    assert sorted(tmp_path.rglob("*")) == before


class Denied(BaseHTTPRequestHandler):
    """An API server that the user may not read."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def denying_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Denied) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_preview_of_a_context_in_several_files_leaves_no_copy(
    user: dict[str, str], tmp_path: Path, denying_server: str
) -> None:
    context = {"name": "production", "context": {"cluster": "c", "user": "u"}}
    entries = {"clusters": {"name": "c", "cluster": {"server": denying_server}}, "contexts": context}
    entries["users"] = {"name": "u", "user": {"token": "hidden"}}
    files = [tmp_path / section for section in entries]
    for file, (section, entry) in zip(files, entries.items(), strict=True):
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", section: [entry]}))
    settings = tmp_path / "Pulumi.production.yaml"
    document = yaml.safe_load((ROOT / "stacks" / settings.name).read_text())
    document["config"]["trainyard:cluster"] = {"provider": "existing", "context": "production"}
    settings.write_text(yaml.safe_dump(document))
    copies = cache_home() / "kubeconfigs"
    before, cached = sorted(tmp_path.rglob("*")), sorted(copies.glob("*"))
    lists = {**user, "KUBECONFIG": os.pathsep.join(map(str, files)), "PULUMI_BACKEND_URL": f"file://{tmp_path}/state"}
    found = trainyard(lists, "preview", "--stack", "production", "--config-file", str(settings))
    assert found.returncode == 2
    assert "The API server rejects a list request: 403" in found.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert sorted(copies.glob("*")) == cached


def test_a_preview_builds_nothing(user: dict[str, str], tmp_path: Path) -> None:
    found = trainyard(
        {**user, "TRAINYARD_CACHE_HOME": str(tmp_path / "cache")}, "preview", "--stack", "production", "--no-cluster"
    )
    assert found.returncode == 2
    assert "opa" in found.stderr
    assert "trainyard cluster toolchain" in found.stderr
    assert not (tmp_path / "unused").exists()
