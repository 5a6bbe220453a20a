"""`trainyard convert`: convert legacy jobs to TrainJobs and runtimes, with a note for every field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import text_of
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.api import Body
    from trainyard.jobs.convert.conversion import Conversion


class _Format(StrEnum):
    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("convert", epilog="Example: trainyard convert pytorchjob.yaml --out jobs")(_convert)


def _convert(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Legacy jobs: files, folders, or - for standard input")
    ],
    output: Annotated[_Format, typer.Option("-o", "--output", help="Format")] = _Format.YAML,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for one file per job; created if missing", file_okay=False)
    ] = None,
    runtime: Annotated[
        str,
        typer.Option(
            "--runtime",
            help="auto: a catalog runtime if one fits the job; always: a TrainingRuntime for every job; "
            "or the name of a catalog runtime",
        ),
    ] = "auto",
    folder: Annotated[
        list[Path] | None, typer.Option("--runtimes", help="Folder of a runtime catalog; by default Trainyard's")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the jobs that name none")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if a field cannot be converted")] = False,
    every: Annotated[bool, typer.Option("--all", help="List each field by itself, unchanged ones too")] = False,
) -> None:
    """Convert jobs of older operators to TrainJobs; notes are printed to standard error; exit 1 if a job is skipped."""
    from trainyard.data import data_folder
    from trainyard.jobs.convert.conversion_report import as_text, as_yaml
    from trainyard.jobs.convert.converted_documents import convert_documents
    from trainyard.jobs.runtimes.catalog_loader import load_catalog

    texts = {name: text for path in files for name, text in _texts(path)}
    objects = load_catalog(folder or data_folder("runtimes")).objects()
    catalog = {body["metadata"]["name"]: body for body in objects}
    conversions = convert_documents(texts, catalog, runtime=runtime, namespace=namespace)
    if out is not None:
        _write(out, conversions)
    if output is _Format.JSON:
        typer.echo(json_text({"results": [each.as_json() for each in conversions]}))
    elif out is None:
        typer.echo(as_yaml(body for each in conversions for body in each.objects), nl=False)
    typer.echo(as_text(conversions, every=every), nl=False, err=True)
    rejected = _rejected(conversions, catalog)
    if rejected or any(each.lost for each in conversions if strict or not each.objects):
        raise typer.Exit(1)


def _rejected(conversions: Sequence[Conversion], catalog: Mapping[str, Body]) -> bool:
    """Print the errors with which the API server rejects the Jobs of converted jobs; return whether there are any."""
    from trainyard.cli.check import validator_program
    from trainyard.jobs.convert.conversion_report import as_yaml
    from trainyard.jobs.render.rendered_documents import RuntimeSource, render_documents
    from trainyard.jobs.render.submission import read_runtime
    from trainyard.policy.engines.api_validator import NOT_BUILT, ApiValidator

    source = RuntimeSource(lambda kind, namespace, name: read_runtime(catalog[name]) if name in catalog else None)
    texts = [{"converted": as_yaml(each.objects)} for each in conversions if each.objects]
    found = False
    with ApiValidator(validator_program) as validator:
        if texts and not validator.available:
            typer.echo(f"# note: {NOT_BUILT}", err=True)
            return False
        for text in texts:
            for answer in render_documents(text, source, validate=validator.validate):
                for error in answer.errors if answer.rejected else ():
                    found = True
                    typer.echo(f"# error: TrainJob {answer.train_job}: {error}", err=True)
    return found


def _texts(name: str) -> Iterator[tuple[str, str]]:
    from trainyard.manifests.documents import Source
    from trainyard.manifests.files import read_sources

    if name == "-":
        yield "standard input", text_of(name)
    elif Path(name).is_dir():
        for found in read_sources([name]):
            if isinstance(found, Source):
                yield found.name, found.text
            elif found.fix:
                raise TrainyardError(f"{found.name} {found.reason}", fix=found.fix)
    else:
        yield name, text_of(name)


def _write(out: Path, conversions: Sequence[Conversion]) -> None:
    """Write one file per job, named after it, with its namespace if the name is not unique."""
    from trainyard.atomic_write import write_text
    from trainyard.jobs.convert.conversion_report import as_text, as_yaml

    made = [each for each in conversions if each.objects]
    names = Counter(each.objects[-1]["metadata"]["name"] for each in made)
    if out.is_symlink():
        raise TrainyardError(f"{out} is a link", fix="name the folder itself")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for each in made:
            metadata = each.objects[-1]["metadata"]
            name = metadata["name"]
            if names[name] > 1:
                name = f"{metadata.get('namespace', 'default')}-{name}".replace("/", "-")
            write_text(out / f"{name}.yaml", as_text([each]) + as_yaml(each.objects))
    except OSError as error:
        raise TrainyardError(f"{out} cannot be written: {error.strerror}", fix="choose another folder") from error
