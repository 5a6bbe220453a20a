"""What the documentation shows is what the platform takes: every YAML block is parsed, and validated by its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.framework_cells import CELLS
from tests.cluster.framework_jobs import COMPLETING, ELSEWHERE
from tests.docs.block_faults import faults_of
from tests.docs.blocks import Block, blocks, guide_runs, pages
from trainyard.errors import TrainyardError

BLOCKS = [block for page in pages() for block in blocks(page)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_is_what_the_platform_takes(block: Block, tmp_path: Path) -> None:
    found = [f"{fault.path}: {fault.message}" for fault in faults_of(block.documents(), tmp_path)]
    assert not found, f"{block.place}: {found}"


def test_the_marks_of_blocks_are_known() -> None:
    assert {block.mark for block in BLOCKS} <= {"", "run"}


def test_documented_jobs_have_names_of_their_own() -> None:
    names = [run.name for run in (*guide_runs(), *COMPLETING, *ELSEWHERE)]
    assert len({*names, *(cell.job for cell in CELLS)}) == len({cell.job for cell in CELLS} | set(names))
    assert len(set(names)) == len(names), [name for name in set(names) if names.count(name) > 1]
    assert not {run.name for run in guide_runs()} & {cell.job for cell in CELLS}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\na: 2\n", "duplicate key"),
        ("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: j, namespace: vision}\n"
         "spec: {runtimeRef: {name: nothing}}\n", "must be created before"),
        ("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: r}\n"
         "spec: {mlPolicy: {torch: {}, jax: {}}}\n", "MLP-001"),
        ("trainyard:tenants: {vision: {queues: [nowhere]}}\n", "nowhere"),
        ("trainyard:fabrik: {}\n", "fabrik"),
        ("apiVersion: trainyard.dev/v1alpha1\nkind: TenantPolicy\nmetadata: {name: tenant}\n"
         "spec: {queues: a}\n", "queues"),
        ("title: t\nfabric: {domains: []}\njobs: {a: {tenant: nobody}}\n", "nobody"),
        ("- {rule: QUE-002, path: a, reason: b}\n", "expires"),
    ],
)  # fmt: skip
def test_a_wrong_block_is_found(text: str, fault: str, tmp_path: Path) -> None:
    block = Block("page.md", 1, text)
    try:
        found = [f"{each.rule} {each.path}: {each.message}" for each in faults_of(block.documents(), tmp_path)]
    except TrainyardError as error:
        found = [str(error)]
    assert any(fault in each for each in found), found


def test_blocks_are_found_with_their_marks_and_indents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("A\n\n<!-- run -->\n```yaml\na: 1\n```\n\n- b\n  ```yaml\n  c:\n    d: 2\n  ```\n```sh\nx\n```\n")
    first, second = blocks(page)
    assert (first.mark, first.line, first.documents()) == ("run", 5, [{"a": 1}])
    assert (second.mark, second.documents()) == ("", [{"c": {"d": 2}}])
