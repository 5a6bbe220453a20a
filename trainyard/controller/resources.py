"""Objects that the controller creates: their field manager, and those of the gang schedulers."""

from __future__ import annotations

from trainyard.kube.resource import Resource
from trainyard.render.gangs import CHILDREN

__all__ = ["FIELD_MANAGER", "GANG_OBJECTS"]

GANG_OBJECTS = {Resource(each.group, each.version, each.plural, each.kind): each for each in CHILDREN}
"""What each gang scheduler says of the resource of its gangs."""
FIELD_MANAGER = "trainer"
