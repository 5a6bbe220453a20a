"""The guides are complete, and their generated parts say what the platform does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.framework_cells import CELLS, FRAMEWORKS, GANGS, INITIALIZERS
from tests.cluster.framework_jobs import COMPLETING, ELSEWHERE
from tests.docs.blocks import blocks, pages
from tests.docs.mistakes import MISTAKES
from tests.docs.reference import FOLDER, INDEX, first_job, guide, updated
from trainyard.data import data_folder
from trainyard.jobs.render.frameworks import FRAMEWORKS as POLICIES
from trainyard.jobs.render.gangs import GANGS as SCHEDULERS
from trainyard.jobs.runtimes.catalog_loader import load_catalog

PAGES = [*map(guide, FRAMEWORKS), INDEX]
NAMED = re.compile(r"\[[^]]*?([\w-]+\.md)\]\(([^)#\s]+)")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    assert page.read_text() == updated(page), "write it again: python -m tests.docs.reference"


def test_every_framework_has_a_guide_that_is_listed_and_a_row() -> None:
    assert sorted(FOLDER.glob("*.md")) == sorted(PAGES)
    assert set(MISTAKES) == set(FRAMEWORKS), "add it to MISTAKES of tests/docs/mistakes.py"
    assert POLICIES.keys() <= FRAMEWORKS.keys(), "add it to FRAMEWORKS of tests/cluster/framework_cells.py"
    index = INDEX.read_text()
    assert all(f"({name}.md)" in index.partition("##")[0] for name in FRAMEWORKS)


def test_every_gang_scheduler_has_a_column_and_every_cell_a_job() -> None:
    assert GANGS.keys() - {"none"} == SCHEDULERS.keys()
    assert len(CELLS) == len(FRAMEWORKS) * len(GANGS) * len(INITIALIZERS)
    written = {run.name for run in (*COMPLETING, *ELSEWHERE)}
    assert {cell.job for cell in CELLS if cell.named} <= written


def test_every_runtime_of_the_catalog_is_run_or_described_in_a_guide() -> None:
    guides = "".join(page.read_text() for page in PAGES)
    names = [runtime.name for runtime in load_catalog(data_folder("runtimes")).runtimes]
    assert [name for name in names if f"{name}`" not in guides and f"name: {name}\n" not in guides] == [], "add a guide"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_first_job_of_a_guide_runs(framework: str) -> None:
    first = next(blocks(guide(framework)))
    assert first.mark == "run"
    assert first_job(guide(framework)) in first.documents()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere_and_name_the_page(page: Path) -> None:
    text = re.sub(r"(?s)```.*?```", "", page.read_text())
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []
    assert [link for name, link in NAMED.findall(text) if Path(link).name != name] == []
