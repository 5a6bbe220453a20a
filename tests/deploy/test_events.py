"""What people read while and after an operation runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pulumi.automation import CommandResult
from pulumi.automation.errors import create_command_error

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import TransportError
from trainyard.kube.client import Client
from trainyard.platform.deploy import deletion_watch
from trainyard.platform.deploy.engine_errors import _printed_errors, _with_fix, translate_errors
from trainyard.platform.deploy.engine_events import EventLog, address_of, component_of, resource_of
from trainyard.platform.deploy.operation_result import OperationResult, ResourceChange
from trainyard.platform.deploy.workspace import StackProgram

QUEUE = (
    "urn:pulumi:local::trainyard::trainyard:queues:Queues$kubernetes:scheduling.volcano.sh/v1beta1:Queue::Queue/vision"
)
POD = (
    "urn:pulumi:local::trainyard::trainyard:volcano:Volcano$kubernetes:apps/v1:Deployment::Deployment/volcano-system/x"
)


def event(**parts: Any) -> Any:
    names = ("resource_pre_event", "res_outputs_event", "res_op_failed_event", "diagnostic_event", "summary_event")
    return SimpleNamespace(**{name: parts.get(name) for name in names})


def step(urn: str, operation: str = "create", fields: dict[str, Any] | None = None) -> Any:
    metadata = SimpleNamespace(
        urn=urn, op=operation, type=urn.split("::")[2].split("$")[-1], detailed_diff=fields, diffs=None
    )
    return SimpleNamespace(metadata=metadata)


def diagnostic(message: str, urn: str | None = None, severity: str = "error") -> Any:
    return SimpleNamespace(message=message, urn=urn, severity=severity)


def test_resources_and_components_have_their_own_names() -> None:
    assert resource_of(QUEUE) == "Queue/vision"
    assert component_of(QUEUE) == "Queues"


def test_progress_says_what_is_done_and_what_is_waited_for() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(QUEUE)))
    log(event(resource_pre_event=step(POD)))
    assert log.describe() == "0 done, create Queue/vision and 1 more"
    log(event(res_outputs_event=step(QUEUE)))
    assert log.describe() == "1 done, create Deployment/volcano-system/x"


def test_unchanged_resources_are_no_changes() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(QUEUE, "same")))
    assert log.changes == []
    assert log.describe() == "0 done"


def test_a_change_names_its_fields() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(QUEUE, "update", {"spec.capability": {}})))
    assert log.changes == [ResourceChange("update", "Queue/vision", "Queues", ("spec.capability",))]


RETIRED = "urn:pulumi:local::trainyard::trainyard:queues:Queues$trainyard:retired:RetiredObject::Queue/vision"


def test_an_import_is_a_change() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(QUEUE, "import")))
    result = OperationResult("up", "local", {"import": 2, "create": 1}, tuple(log.changes), 1.0)
    assert result.summary == "1 created, 2 imported, 0 unchanged"
    assert result.lines()[1].strip().startswith("= Queue/")


def test_another_run_that_holds_the_stack_is_no_failure_of_resources(tmp_path: Path) -> None:
    locked = "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end"
    with (
        pytest.raises(TrainyardError, match="Another run holds the stack local") as caught,
        translate_errors("up", "local", EventLog(), StackProgram(), tmp_path / "up.log"),
    ):
        raise create_command_error(CommandResult(stderr=locked, stdout="", code=255))
    assert "run the command again" in caught.value.fix
    assert "currently locked" in str(caught.value)


def test_a_state_that_a_killed_run_has_left_unreadable_is_repaired_by_up(tmp_path: Path) -> None:
    with (
        pytest.raises(TrainyardError, match="preview of stack local failed") as caught,
        translate_errors("preview", "local", EventLog(), StackProgram(), tmp_path / "preview.log"),
    ):
        raise create_command_error(
            CommandResult(stderr="error: could not get stack: failed to load checkpoint: EOF", stdout="", code=255)
        )
    assert "run `trainyard up`, which repairs" in str(caught.value)


def test_an_object_that_nothing_succeeds_is_deleted() -> None:
    log = EventLog()
    for urn, operation in ((RETIRED, "create-replacement"), (RETIRED, "replace"), (QUEUE, "delete-replaced")):
        log(event(resource_pre_event=step(urn, operation)))
        log(event(res_outputs_event=step(urn, operation)))
    log(event(summary_event=SimpleNamespace(resource_changes={"replace": 1, "same": 3})))
    assert log.changes == [ResourceChange("delete", "Queue/vision", "Queues")]
    assert log.counts == {"delete": 1, "same": 3}


def test_a_replacement_is_one_change() -> None:
    log = EventLog()
    for operation in ("create-replacement", "replace", "delete-replaced"):
        log(event(resource_pre_event=step(QUEUE, operation)))
    log(event(summary_event=SimpleNamespace(resource_changes={"replace": 1})))
    assert log.changes == [ResourceChange("replace", "Queue/vision", "Queues")]
    assert log.counts == {"replace": 1}


def test_what_components_report_is_noted_once() -> None:
    log = EventLog()
    for urn in (RETIRED, RETIRED, QUEUE, None):
        log(event(diagnostic_event=diagnostic("it stays", urn, "warning")))
    assert log.notes == ["it stays"]
    stack = "urn:pulumi:local::trainyard::pulumi:pulumi:Stack::trainyard-local"
    for urn, text in ((QUEUE, "of the provider"), (None, "the version is not verified"), (stack, "a node is missing")):
        log(event(diagnostic_event=diagnostic(text, urn, "warning")))
    assert log.notes == ["it stays", "the version is not verified", "a node is missing"]
    assert OperationResult("up", "local", {}, (), 1.0, notes=("it stays",)).lines() == ["Notes", "  ! it stays"]


def test_a_failure_carries_the_message_of_its_resource_without_markup() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(QUEUE)))
    log(event(diagnostic_event=diagnostic("<{%fg 1%}>parent root2\nnot found<{%reset%}>", QUEUE)))
    log(event(diagnostic_event=diagnostic("update failed", "urn:pulumi:local::trainyard::pulumi:pulumi:Stack::s")))
    log(event(res_op_failed_event=step(QUEUE)))
    assert log.findings == [Finding("Queue/vision", "parent root2 not found")]


def test_a_failed_deployment_points_at_its_log() -> None:
    finding = _with_fix(Finding("Deployment/volcano-system/volcano-scheduler", "timed out"))
    assert finding.fix == "see `trainyard cluster logs vc-scheduler`"


def test_nothing_to_do_says_so() -> None:
    result = OperationResult("up", "local", {"same": 137}, (), 1.0)
    assert not result.changed
    assert result.summary == "nothing to change, 137 resources are as declared"


def test_changes_are_counted_and_grouped() -> None:
    changes = (
        ResourceChange("update", "Queue/vision", "Queues", ("spec.capability",)),
        ResourceChange("delete", "Queue/x", "Queues"),
    )
    result = OperationResult("preview", "local", {"update": 1, "delete": 1, "same": 3}, changes, 1.0)
    assert result.summary == "1 to delete, 1 to update, 3 unchanged"
    assert result.lines() == ["Queues", "  ~ Queue/vision  spec.capability", "  - Queue/x"]
    assert result.as_json()["changed"] is True


def test_a_refresh_tells_at_its_end_what_it_found() -> None:
    log = EventLog()
    for urn, found in ((QUEUE, "update"), (POD, "same")):
        log(event(resource_pre_event=step(urn, "refresh")))
        log(event(res_outputs_event=step(urn, found)))
    assert [(change.operation, change.resource) for change in log.changes] == [("update", "Queue/vision")]
    assert log.describe() == "2 done"


def test_errors_that_the_cli_printed_are_reported_without_an_event() -> None:
    output = "Previewing update (local):\nerror: could not start policy pack\nerror: could not start policy pack\n"
    assert [finding.message for finding in _printed_errors(output)] == ["could not start policy pack"]


NAMESPACE = "urn:pulumi:local::trainyard::trainyard:tenants:Tenants$kubernetes:core/v1:Namespace::Namespace/vision"


def test_a_resource_has_the_address_of_its_object() -> None:
    assert address_of(NAMESPACE) == ("v1", "Namespace", "vision", "")
    assert address_of(POD) == ("apps/v1", "Deployment", "x", "volcano-system")
    assert address_of(QUEUE) == ("scheduling.volcano.sh/v1beta1", "Queue", "vision", "")
    assert address_of("urn:pulumi:local::trainyard::kubernetes:core/v1:NamespacePatch::Namespace/vision") is None
    assert address_of("urn:pulumi:local::trainyard::pulumi:pulumi:Stack::s") is None


def test_a_deletion_that_is_held_says_by_what_and_so_does_its_failure() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(QUEUE, "delete")))
    log(event(resource_pre_event=step(POD)))
    log(event(resource_pre_event=step(NAMESPACE, "delete")))
    assert [urn for urn, _ in log.deleting(0.0)] == [QUEUE, NAMESPACE]
    assert log.deleting(60.0) == []
    log(event(diagnostic_event=diagnostic("Resource scheduled for deletion", NAMESPACE, "info")))
    log.hold(NAMESPACE, "Workload vision/a has finalizer x")
    assert log.describe() == "0 done, delete Namespace/vision and 2 more for 0 s: Workload vision/a has finalizer x"
    log(event(diagnostic_event=diagnostic("timed out", NAMESPACE)))
    log(event(res_op_failed_event=step(NAMESPACE, "delete")))
    assert log.findings == [Finding("Namespace/vision", "timed out: Workload vision/a has finalizer x")]
    assert "Workload" not in log.describe()


def test_a_deletion_is_no_longer_held_when_nothing_holds_it() -> None:
    log = EventLog()
    log(event(resource_pre_event=step(NAMESPACE, "delete")))
    log.hold(NAMESPACE, "x")
    log.hold(NAMESPACE, "")
    assert log.describe() == "0 done, delete Namespace/vision"


async def test_slow_deletions_are_looked_up_in_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    async def read(_: object, *address: str) -> list[str]:
        asked.append(address)
        if address[1] == "Queue":
            raise TransportError("no answer")
        return ["Workload a", "Workload b"]

    monkeypatch.setattr(deletion_watch, "read_blockers", read)
    monkeypatch.setattr(deletion_watch, "PATIENCE", 0.0)
    log = EventLog()
    for urn in (QUEUE, NAMESPACE):
        log(event(resource_pre_event=step(urn, "delete")))
    await deletion_watch.report_blockers(cast("Client", None), log)
    assert [address[1] for address in asked] == ["Queue", "Namespace"]
    assert log.describe().endswith(": Workload a; Workload b")
