"""Settings of NetworkPolicies: blocks of addresses, and keys without effect."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from trainyard.settings.network import NetworkPolicySettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tenants": True, "egressTo": ["10.20.0.0/33"]}, "does not appear to be an IPv4 or IPv6 network"),
        ({"tenants": True, "egressTo": ["10.20.0.1/16"]}, "has host bits set"),
        ({"egressTo": []}, "egressTo has no effect without tenants: true"),
        ({"fromNamespaces": ["gateway"]}, "fromNamespaces has no effect without tenants: true"),
    ],
)
def test_what_cannot_be_enforced_is_rejected(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NetworkPolicySettings.model_validate(given)


def test_blocks_of_both_address_families_are_valid() -> None:
    given = {"tenants": True, "egressTo": ["10.20.0.0/16", "fd00::/8"]}
    assert NetworkPolicySettings.model_validate(given).egress_to == ("10.20.0.0/16", "fd00::/8")
