"""Parts of Volcano in a replay: those that its component, its section and its host programs declare."""

from __future__ import annotations

from components.volcano import ADMISSION_SECRET, custom_resource_definitions
from tests.components.recording import embedded_access
from trainyard.local.cluster.supervisor.host_programs.volcano import PROGRAMS as HOST_PROGRAMS
from trainyard.local.simulate.programs import PROGRAMS
from trainyard.local.simulate.volcano_install import NAMESPACE, objects
from trainyard.settings.sections.volcano import SECTION, VolcanoSettings


def test_a_replay_installs_what_the_component_installs() -> None:
    found = list(objects(embedded_access()))
    definitions = {each["metadata"]["name"] for each in found if each["kind"] == "CustomResourceDefinition"}
    version = SECTION.releases[0].version
    assert definitions == {each["metadata"]["name"] for each in custom_resource_definitions(version)}
    (secret,) = (each["metadata"] for each in found if each["kind"] == "Secret")
    assert (secret["namespace"], secret["name"]) == (VolcanoSettings().namespace, ADMISSION_SECRET)
    assert VolcanoSettings().namespace == NAMESPACE


def test_the_programs_of_a_replay_are_the_host_programs_of_volcano() -> None:
    deployments = {each["metadata"]["name"] for each in objects(embedded_access()) if each["kind"] == "Deployment"}
    assert deployments == {each.deployment for each in HOST_PROGRAMS.programs.values()}
    assert set(PROGRAMS.values()) == set(HOST_PROGRAMS.programs)
    assert set(PROGRAMS) == {"admission", "controllers", "scheduler"}
