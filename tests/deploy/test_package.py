"""The names of the package are imported when they are used."""

from __future__ import annotations

import pytest

import trainyard.platform.deploy


@pytest.mark.parametrize("name", trainyard.platform.deploy.__all__)
def test_every_name_of_the_package_exists(name: str) -> None:
    assert getattr(trainyard.platform.deploy, name).__name__ == name
