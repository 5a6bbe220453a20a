"""Rights that are taken away and come back, tokens and certificates that are replaced while the controller runs."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml

from tests.faults.bench import HOME, ROLE_BINDINGS, SERVICE_ACCOUNT, Bench, grant, grant_keys
from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.processes import Controller
from tests.faults.proxy import on
from tests.faults.scene import Scene, poked_and_quiet, shipped
from tests.support import awaited
from trainyard import pki
from trainyard.controller.permissions import KEYS_ROLE
from trainyard.kube.kinds import CLUSTER_ROLE_BINDINGS, SERVICE_ACCOUNTS
from trainyard.kube.training_kinds import TRAINING_RUNTIMES
from trainyard.local.cluster.control_plane_certificates import read_pair

pytestmark = pytest.mark.cluster
AGAIN = 62.0


def forbidden(replica: Replica, scene: Scene) -> bool:
    return any(call.status == 403 and call.namespace == scene.namespace for call in replica.proxy.calls)


def test_rights_that_were_missing_for_a_while_are_used_when_they_are_back(
    scene: Scene, control_plane: Bench, launch: Launch
) -> None:
    scene.runtime(gang=True)
    replica = launch()
    scene.running("before")
    scene.api.delete(CLUSTER_ROLE_BINDINGS, SERVICE_ACCOUNT)
    try:
        replica.proxy.cut()
        scene.change("before", suspend=True)
        awaited("a refusal", lambda: any(call.status == 403 for call in replica.proxy.calls))
    finally:
        grant(control_plane.api)
    scene.submit()
    scene.job_set(timeout=AGAIN)
    scene.suspended("before", timeout=AGAIN)
    poked_and_quiet(scene, replica.proxy)


@exhaustive
def test_a_controller_that_starts_without_rights_works_once_it_has_them(
    scene: Scene, control_plane: Bench, launch: Launch
) -> None:
    scene.runtime()
    scene.submit()
    scene.api.delete(CLUSTER_ROLE_BINDINGS, SERVICE_ACCOUNT)
    try:
        replica = launch(ready=False)
        awaited("a refusal", lambda: any(call.status == 403 for call in replica.proxy.calls))
        assert replica.controller.alive
    finally:
        grant(control_plane.api)
    scene.job_set(timeout=AGAIN)


def test_a_token_that_was_replaced_is_read_again(scene: Scene, control_plane: Bench, launch: Launch) -> None:
    """The ServiceAccount is made again, as a restored backup does it: every old token is refused from then on."""
    scene.runtime()
    replica = launch()
    scene.running("before")
    scene.api.delete(SERVICE_ACCOUNTS, SERVICE_ACCOUNT, HOME)
    grant(control_plane.api)
    replica.proxy.cut()
    scene.submit()
    awaited("a refusal of the old token", lambda: any(call.status == 401 for call in replica.proxy.calls))
    assert replica.controller.alive
    replica.token_file.write_text(control_plane.token())
    scene.job_set(timeout=AGAIN)
    assert "Failed" not in str((scene.job() or {}).get("status"))
    assert "401" not in scene.events()
    assert "Unauthorized" not in scene.events()


@exhaustive
def test_a_token_file_that_is_missing_for_a_moment_ends_nothing(scene: Scene, launch: Launch) -> None:
    scene.runtime()
    replica = launch()
    scene.running("before")
    token = replica.token_file.read_text()
    replica.token_file.unlink()
    with replica.proxy.answering(lambda call: True, 401, "Unauthorized", times=20) as refused:
        scene.submit()
        awaited("refusals", lambda: refused.hits >= 3)
    replica.token_file.write_text(token)
    scene.job_set(timeout=AGAIN)
    assert replica.controller.alive


@exhaustive
def test_client_certificates_that_are_renewed_are_read_again(
    scene: Scene, control_plane: Bench, tmp_path: Path
) -> None:
    """The first certificate ends after some seconds; the file holds another one by then."""
    folder = tmp_path
    authority = read_pair(control_plane.server.folder.pki, "ca")

    def write(seconds: int) -> None:
        pair = pki.issue(
            authority,
            "rotated",
            now=datetime.datetime.now(datetime.UTC),
            lifetime=datetime.timedelta(seconds=seconds),
            organizations=("system:masters",),
            client=True,
        )
        (folder / "client.key").write_bytes(pair.key)
        (folder / "client.crt").write_bytes(pair.certificate)

    write(25)
    (folder / "ca.crt").write_bytes(authority.certificate)
    ended = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=27)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": control_plane.url, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "a", "user": {"client-certificate": "client.crt", "client-key": "client.key"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (folder / "direct.kubeconfig").write_text(yaml.safe_dump(document))
    controller = Controller(folder, folder / "direct.kubeconfig", name="direct")
    try:
        controller.start()
        scene.runtime()
        scene.running("before")
        write(3600)
        awaited("the certificate's end", lambda: datetime.datetime.now(datetime.UTC) > ended, timeout=40)
        scene.submit()
        scene.job_set(timeout=AGAIN)
        scene.play("before", "Completed")
        scene.condition("Complete", "before", timeout=AGAIN)
        assert controller.alive
        assert "Traceback" not in controller.text
    finally:
        controller.kill()


def test_a_right_that_is_missing_for_one_kind_stops_nothing_else(scene: Scene, shared: Replica) -> None:
    """PodGroups are refused: jobs without a gang run, and the gang's job says why it waits."""
    scene.runtime("plain")
    scene.runtime("gang", gang=True)
    message = 'podgroups.scheduling.volcano.sh is forbidden: User "controller" cannot create resource'
    with shared.proxy.answering(on("podgroups", namespace=scene.namespace), 403, "Forbidden", message):
        scene.submit("gang", runtime="gang")
        scene.awaited_event("forbidden", "gang")
        scene.running("plain", runtime="plain")
        scene.play("plain", "Completed")
        scene.condition("Complete", "plain")
        scene.change("gang", suspend=True)
        scene.condition("Suspended", "gang")
    scene.suspended("gang", timeout=AGAIN)


@exhaustive
def test_keys_that_are_not_granted_are_asked_for_and_made_once_they_are(scene: Scene, shared: Replica) -> None:
    scene.api.delete(ROLE_BINDINGS, KEYS_ROLE, scene.namespace)
    scene.create(TRAINING_RUNTIMES, {"metadata": {"name": "mpi"}, "spec": shipped("mpi-openmpi")["spec"]})
    scene.submit(runtime="mpi")
    scene.awaited_event(f"kubectl create rolebinding {KEYS_ROLE} --namespace={scene.namespace}")
    grant_keys(scene.api, scene.namespace)
    scene.job_set(timeout=AGAIN)
    poked_and_quiet(scene, shared.proxy)
