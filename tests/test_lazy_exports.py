"""Packages whose names are imported on demand."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.support import python, require


def test_every_public_name_is_served_and_is_no_module() -> None:
    package = importlib.import_module("trainyard.api")
    files = {path.stem for path in Path(str(package.__file__)).parent.iterdir()}
    assert package.__all__
    for public in package.__all__:
        assert getattr(package, public) is getattr(package, public)
        assert public not in files, "the import system would replace the name by the module"
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        package.absent  # noqa: B018


@pytest.mark.slow
def test_an_explanation_imports_neither_the_settings_of_stacks_nor_the_renderer() -> None:
    code = "import sys, trainyard.insight.explain; print(*sys.modules)"
    loaded = require(python(code)).split()
    heavy = {"trainyard.settings.stack", "trainyard.jobs.render.pipeline", "trainyard.api.train_job", "aiohttp"}
    assert not heavy & set(loaded)
