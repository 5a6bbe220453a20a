"""Fabrics for tests: settings from plain values, and regular trees of any size."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trainyard.settings.fabric import FabricSettings


def fabric(*domains: dict[str, Any], **settings: Any) -> FabricSettings:
    return FabricSettings.model_validate({"domains": list(domains), **settings})


def trees(depth: int, prefix: str = "d") -> st.SearchStrategy[list[dict[str, Any]]]:
    if depth == 1:
        counts = st.lists(st.integers(1, 3), min_size=1, max_size=3)
        return counts.map(lambda each: [{"name": f"{prefix}-{i}", "nodes": count} for i, count in enumerate(each)])
    return st.integers(1, 3).flatmap(
        lambda width: st.tuples(*(trees(depth - 1, f"{prefix}-{i}") for i in range(width))).map(
            lambda below: [{"name": f"{prefix}-{i}", "domains": domains} for i, domains in enumerate(below)]
        )
    )
