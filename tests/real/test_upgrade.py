"""JobSet moves to its older pin and back under a job that runs and others that are created."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real.conftest import RealCluster, process_of
from tests.real.real_jobs import GATED, job, open_gate
from tests.real.test_disturbances import NODES, none_is_lost, submissions
from tests.support import awaited, repeated, require
from trainyard.local.cluster.image_sources import image_builder
from trainyard.local.cluster.node.node_images import enter, first_process, import_images
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.local.images.image_build import ImageBuilder
from trainyard.settings.versions import PROGRAMS

pytestmark = pytest.mark.real

CURRENT, OLDER = (program for program in PROGRAMS if program.name == "jobset")


def import_older(real: RealCluster, out: Path) -> None:
    """Build the image of the older JobSet, and import it into the nodes."""
    (found,) = Toolchain().resolve([OLDER])
    if (program := found.path) is None:
        pytest.skip(f"JobSet {OLDER.version} is not built (fix: trainyard cluster toolchain --older)")
    known = image_builder(build=False)
    recipe = known.recipes["jobset"].model_copy(update={"version": OLDER.version})
    sources = replace(known.sources, program=lambda _: program)
    images = ImageBuilder({"jobset": recipe}, sources, out).build()
    firsts = {name: first_process(process_of(real, f"node-{name}")) for name in NODES}
    import_images({name: enter(pid) for name, pid in firsts.items() if pid is not None}, images)


def install(real: RealCluster, version: str | None) -> None:
    """Run `up` with a version of JobSet; None: the current one."""
    path = real.cluster.config_file
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    document["config"]["trainyard:jobset"].pop("version", None)
    if version is not None:
        document["config"]["trainyard:jobset"]["version"] = version
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    require(real.cluster.trainyard("up", "--yes", "--stack", "node", "--config-file", str(path)))


def images(real: RealCluster) -> set[str]:
    """Return the images of the pods of JobSet that are ready."""
    return {
        status["image"].rpartition("/")[2]
        for pod in real.cluster.get("pods", "-n", "jobset-system")["items"]
        if "deletionTimestamp" not in pod["metadata"]
        for status in pod["status"].get("containerStatuses", ())
        if status["ready"]
    }


def test_jobset_moves_to_its_older_pin_and_back_while_a_job_runs(real: RealCluster, tmp_path: Path) -> None:
    import_older(real, tmp_path)
    require(real.cluster.apply(job("through", code=GATED, workers=2)))

    def workers() -> dict[str, dict[str, Any]]:
        pods = real.cluster.pods("through", "language")
        return {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] == "Running"}

    before = awaited("two workers", lambda: found if len(found := workers()) == 2 else None)
    with repeated(submissions(real, "move"), every=1.0) as submitted:
        for version in (OLDER.version, None):
            install(real, version)
            wanted = {f"jobset:v{version or CURRENT.version}"}
            awaited("its pods", lambda wanted=wanted: images(real) == wanted)  # type: ignore[misc]
            name = f"with-{(version or CURRENT.version).replace('.', '-')}"
            require(real.cluster.apply(job(name)))
            real.cluster.condition(name, "language", "Complete")
    assert {name: result.stderr for name, result in submitted if result.returncode} == {}
    none_is_lost(real, [name for name, _ in submitted])
    assert workers().keys() == before.keys()
    for pod in before.values():
        open_gate(real.cluster, pod)
    real.cluster.condition("through", "language", "Complete")
