"""`trainyard crds`: the CustomResourceDefinitions as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.errors import TrainyardError

_JOB_SET_CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("crds", epilog="Example: trainyard crds --out crds")(_crds)


def _crds(
    out: Annotated[Path, typer.Option("--out", help="Output folder; created if missing", file_okay=False)],
    jobset_crd: Annotated[
        Path | None, typer.Option("--jobset-crd", help="File with JobSet's CRD; by default the pinned version's")
    ] = None,
    descriptions: Annotated[
        bool, typer.Option("--descriptions", help="Keep descriptions of JobSet's fields for kubectl explain")
    ] = False,
) -> None:
    """Write the CRDs of the trainer API and of Trainyard, one file each."""
    from trainyard.api.crds import build
    from trainyard.manifests.dump import dump

    definitions = build(_job_set_definition(jobset_crd), descriptions=descriptions)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for definition in definitions:
            path = out / f"{definition['metadata']['name']}.yaml"
            path.write_text(dump(definition, sort_keys=True))
            typer.echo(str(path))
    except OSError as error:
        raise TrainyardError(f"{out} cannot be written: {error.strerror}", fix="choose another folder") from error


def _job_set_definition(path: Path | None) -> dict[str, object]:
    from trainyard.manifests.documents import objects
    from trainyard.manifests.files import read_text
    from trainyard.settings.versions import supported_versions
    from trainyard.upstream import read

    text = read_text(path) if path else read("jobset", supported_versions("jobset")[0], _JOB_SET_CRD)
    definition = next(objects(text, str(path or _JOB_SET_CRD), fix="give JobSet's CRD as YAML"), None)
    names = (definition.get("spec") or {}).get("names") if isinstance(definition, dict) else None
    if not isinstance(definition, dict) or not isinstance(names, dict) or names.get("kind") != "JobSet":
        raise TrainyardError(f"{path} is not JobSet's CustomResourceDefinition", fix="give JobSet's CRD as YAML")
    return definition
