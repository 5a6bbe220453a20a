"""The names of the package are imported when they are used."""

from __future__ import annotations

import pytest

import trainyard.deploy


@pytest.mark.parametrize("name", trainyard.deploy.__all__)
def test_every_name_of_the_package_exists(name: str) -> None:
    assert getattr(trainyard.deploy, name).__name__ == name
