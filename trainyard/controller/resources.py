"""Objects that the controller creates: their field manager, and those of the gang schedulers."""

from __future__ import annotations

from trainyard.jobs.render.gangs import CHILDREN
from trainyard.kube.resource import Resource

GANG_OBJECTS = {Resource(each.group, each.version, each.plural, each.kind): each for each in CHILDREN}
"""What each gang scheduler says of the resource of its gangs."""
FIELD_MANAGER = "trainer"
