"""What stands for a client in limits by address."""

from __future__ import annotations

import pytest

from trainyard.listening import client_key


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fd00::1:2:3:4", "fd00::/64"),
        ("fd00::9:9:9:9", "fd00::/64"),
        ("fd00:0:0:1::4", "fd00:0:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_addresses_of_one_machine_are_one_client(address: str, key: str) -> None:
    assert client_key(address) == key
