"""The timeline is a drawing that is the same for the same replay, well-formed, and safe whatever names say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.golden import assert_golden
from tests.simulate.fake_world import Fifo, scenario
from trainyard.local.simulate.replay import Replay, replay
from trainyard.local.simulate.replay_report import as_json, as_page, as_text
from trainyard.local.simulate.replay_svg import draw

SVG = "{http://www.w3.org/2000/svg}"


def played(folder: Path, **sections: Any) -> Replay:
    loaded = scenario(folder, **sections)
    return asyncio.run(replay(loaded, Fifo(loaded)))


def example(folder: Path) -> Replay:
    return played(
        folder,
        title="Two teams",
        queues={
            "vision": {"deserved": {"nvidia.com/gpu": "32"}, "capability": {"nvidia.com/gpu": "64"}},
            "language": {"deserved": {"nvidia.com/gpu": "32"}},
        },
        jobs={
            "a": {"queue": "vision", "pods": 6, "for": "1h"},
            "b": {"queue": "language", "at": "10m", "pods": 4, "for": "30m"},
        },
        events=[{"at": "20m", "fail": "rack-a-node-1"}],
        expect=[{"at": "10m", "job": "b", "state": "waiting"}, {"at": "10m", "job": "b", "state": "running"}],
    )


def test_the_drawing_of_an_example(tmp_path: Path) -> None:
    text = draw(example(tmp_path))
    assert text == draw(example(tmp_path))
    assert_golden(Path(__file__).parent / "golden" / "example.svg", text)


def test_names_and_titles_are_escaped(tmp_path: Path) -> None:
    title = 'A <script>alert("x")</script> & more'
    done = played(tmp_path, title=title, about="<b>bold</b>")
    drawing = ElementTree.fromstring(draw(done))
    assert title in [text.text for text in drawing.iter(f"{SVG}text")]
    page = as_page(done)
    assert "<script>" not in page
    assert "<b>" not in page


def test_the_drawing_is_named_and_control_characters_are_spaces(tmp_path: Path) -> None:
    drawing = ElementTree.fromstring(draw(played(tmp_path, title="Two\x01teams")))
    assert drawing.findtext(f"{SVG}title") == "Two teams"
    assert "8 nodes" in (drawing.findtext(f"{SVG}desc") or "")


def test_many_nodes_and_jobs_are_folded(tmp_path: Path) -> None:
    racks = [{"name": f"rack-{number}", "nodes": 50} for number in range(20)]
    done = played(tmp_path, fabric={"tierNames": ["rack"], "domains": racks}, jobs={"job": {"copies": 400, "for": 60}})
    text = draw(done)
    ElementTree.fromstring(text)
    assert "and 280 jobs more" in text
    assert "rack-19" in text
    assert len(text) < 400_000


def test_the_answer_for_people_lists_jobs_and_expectations(tmp_path: Path) -> None:
    assert_golden(Path(__file__).parent / "golden" / "example.txt", as_text(example(tmp_path)) + "\n")


def test_the_answer_for_programs_is_json(tmp_path: Path) -> None:
    answer = json.loads(json.dumps(as_json(example(tmp_path))))
    assert answer["ok"] is False
    assert [each["holds"] for each in answer["expectations"]] == [True, False]
    first, second = answer["jobs"]
    assert (first["started"], first["restarts"], first["state"]) == (0, 1, "finished")
    assert second["waited"] == second["started"] - second["arrived"]
    assert {run["ending"] for run in answer["runs"]} == {"lost", "finished"}
