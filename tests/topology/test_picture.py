"""Picture of a fabric: deterministic, small at any size, and readable by screen readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given

from tests.golden import assert_golden
from tests.topology.fabrics import fabric, trees
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.scheduling.topology.picture import picture
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.stack_loader import load_stack

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def gpus(count: int, cpu: int) -> dict[str, Any]:
    return {"capacity": {"cpu": str(cpu), "nvidia.com/gpu": str(count)}}


MIXED = fabric(
    {
        "name": "hall",
        "domains": [
            {"name": "h", "copies": 6, "shape": "h200", "domains": [{"name": "rack", "copies": 20, "nodes": 40}]},
            {
                "name": "b",
                "shape": "b200",
                "domains": [
                    {"name": "rack", "copies": 80, "nodes": 36},
                    {"name": "half", "nodes": 18},
                    {"name": "pool", "nodes": 302},
                ],
            },
        ],
    },
    tierNames=["rack", "spine", "hall"],
    shapes={"h200": gpus(8, 192), "b200": gpus(8, 224)},
)
UNLIKE = fabric(
    *(
        {
            "name": f"s{spine}",
            "domains": [
                {"name": f"s{spine}r{rack}", "nodes": 1 + (spine * 7 + rack * rack) % 97} for rack in range(60)
            ],
        }
        for spine in range(60)
    )
)


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{tag}"))


@pytest.mark.parametrize(
    ("name", "settings"),
    [("local", load_stack(ROOT / "stacks" / "Pulumi.local.yaml").fabric), ("mixed", MIXED), ("none", FabricSettings())],
)
def test_the_picture(name: str, settings: FabricSettings) -> None:
    assert_golden(Path(__file__).parent / "golden" / f"{name}.svg", picture(compile_fabric(settings)))


def test_a_small_fabric_is_drawn_without_grouping() -> None:
    svg = picture(compile_fabric(load_stack(ROOT / "stacks" / "Pulumi.local.yaml").fabric))
    texts = [text.text for text in elements(svg, "text")]
    assert {"spine-0", "rack-0", "rack-1"} <= set(texts)


def test_repeated_domains_are_drawn_once_and_different_ones_separately() -> None:
    assert MIXED.node_count == 8000
    texts = [text.text for text in elements(picture(compile_fabric(MIXED)), "text")]
    assert {"6 × spine, each 800 nodes", "20 × rack, each 40 nodes", "half", "rack, 302 nodes"} <= set(texts)


@pytest.mark.slow
def test_a_fabric_of_different_domains_is_counted() -> None:
    svg = picture(compile_fabric(UNLIKE))
    assert len(svg) < 500_000
    assert any("other kinds" in (text.text or "") for text in elements(svg, "text"))


def test_the_picture_is_accessible() -> None:
    svg = picture(compile_fabric(MIXED), title="Hall <1> & 2\x1b")
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Hall <1> & 2 "
    assert (root.findtext(f"{SVG}desc") or "").startswith("8,000 nodes in 1 × hall (tier 3)")


@pytest.mark.slow
@given(trees(3))
def test_any_fabric_is_drawn_the_same_twice_and_inside_the_picture(domains: list[dict[str, Any]]) -> None:
    compiled = compile_fabric(fabric(*domains, tierNames=["a", "b", "c"]))
    svg = picture(compiled)
    assert svg == picture(compiled)
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in elements(svg, "rect"):
        left, top = float(box.get("x", 0)), float(box.get("y", 0))
        assert left + float(box.get("width", 0)) <= width
        assert top + float(box.get("height", 0)) <= height
