"""`trainyard topology`: check, compile, show and import the fabric of a stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.report import Format
from trainyard.cli.common import text_of
from trainyard.cli.findings import answer
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.scheduling.topology.to_settings import ImportedFabric


_KEYS = {
    "file": "file",
    "domain": "object",
    **{name: name for name in ("severity", "path", "message", "fix", "rule")},
}


_NO_FILE = "set FILE, or --from with a file of `trainyard snapshot save`"


class ManifestFormat(StrEnum):
    """Output of manifests."""

    YAML = "yaml"
    JSON = "json"


_File = Annotated[Path, typer.Argument(help="Stack settings, such as stacks/Pulumi.local.yaml; - for standard input")]
_OptionalFile = Annotated[
    Path | None,
    typer.Argument(help="Stack settings, such as stacks/Pulumi.local.yaml; - for standard input"),
]
_Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Stack settings, HyperNode manifests, and optionally a list of nodes to compare; - for standard input"
    ),
]
_From = Annotated[
    str,
    typer.Option("--from", help="Format of FILE: settings, inventory, nodes, hypernodes, topograph or ibnetdiscover."),
]
_FromFile = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="FORMAT|FILE",
        help="Format of FILE (settings, inventory, nodes, hypernodes, topograph, ibnetdiscover), or instead of FILE a "
        "file of `trainyard snapshot save` (./nodes for one that is named like a format).",
    ),
]
_Snapshot = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="File of `trainyard snapshot save`: its HyperNodes and nodes."),
]
_Tiers = Annotated[
    list[str] | None,
    typer.Option("--tier", help="Name of a tier (for an inventory: its column), lowest first; may be repeated."),
]
_Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="TIER=KEY: node label of a tier, lowest first; may be repeated."),
]
_Qualify = Annotated[
    bool,
    typer.Option(
        "--qualify", help="Prefix domain names with those of their parents, if names are unique only in each parent."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The network fabric: nodes, racks and switches.", no_args_is_help=True)
    group.command("check", epilog="Example: trainyard topology check stacks/Pulumi.production.yaml")(_check)
    group.command("compile", epilog="Example: trainyard topology compile stacks/Pulumi.production.yaml -o yaml")(
        _compile
    )
    group.command("import", epilog="Example: trainyard topology import --from ibnetdiscover fabric.txt")(_import)
    group.command("show", epilog="Example: trainyard topology show stacks/Pulumi.production.yaml --svg fabric.svg")(
        _show
    )
    app.add_typer(group, name="topology")


def _check(
    files: _Files = None,
    from_: _Snapshot = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="Format")] = Format.TEXT,
) -> None:
    """Check fabrics and HyperNodes; exit 1 if there are errors."""
    from trainyard.scheduling.topology.file_checks import check_texts

    texts = [(str(file), text_of(file)) for file in files or ()]
    if from_ is not None:
        texts.append((str(from_), _recorded_fabric(from_)))
    if not texts:
        raise TrainyardError("FILE is missing", fix=_NO_FILE)
    findings = check_texts(texts)
    answer(findings, output, tool="trainyard topology check", keys=_KEYS, files=[name for name, _ in texts])


def _compile(
    file: _File,
    from_: _From = "settings",
    nodes: Annotated[bool, typer.Option("--nodes", help="Print node labels instead.")] = False,
    tiers: _Tiers = None,
    labels: _Labels = None,
    qualify: _Qualify = False,
    output: Annotated[ManifestFormat, typer.Option("-o", "--output", help="Format")] = ManifestFormat.YAML,
) -> None:
    """Print the HyperNodes of the fabric in creation order."""
    from trainyard.scheduling.topology.fabric_compiler import compile_fabric
    from trainyard.scheduling.topology.serialize import hyper_nodes_text, nodes_text

    fabric = compile_fabric(_declared(file, from_, tiers, labels, qualify).settings)
    written = nodes_text if nodes else hyper_nodes_text
    typer.echo(written(fabric, json=output is ManifestFormat.JSON), nl=False)


def _import(
    from_: Annotated[
        str,
        typer.Option(
            "--from", help="Format of FILE: inventory, nodes, hypernodes, topograph, ibnetdiscover or settings."
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(help="Description of the fabric; - for standard input. By default the cluster's nodes"),
    ] = None,
    tiers: _Tiers = None,
    labels: _Labels = None,
    qualify: _Qualify = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(envvar="KUBECONFIG", help="Kubeconfig of the cluster, without FILE.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig; by default the current one.")] = None,
) -> None:
    """Print trainyard:fabric for a stack's settings, converted from another description of the fabric."""
    from trainyard.scheduling.topology.serialize import settings_text

    if file is None:
        declared = _live(from_, kubeconfig, context, tiers, labels, qualify)
    else:
        declared = _declared(file, from_, tiers, labels, qualify)
    typer.echo(settings_text(declared.settings, declared.notes), nl=False)


def _show(
    file: _OptionalFile = None,
    from_: _FromFile = "settings",
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write an SVG image to this file; - for standard output.")
    ] = None,
    tiers: _Tiers = None,
    labels: _Labels = None,
    qualify: _Qualify = False,
) -> None:
    """Show the fabric as a text tree or as an SVG image."""
    from trainyard.scheduling.topology.fabric_compiler import compile_fabric
    from trainyard.scheduling.topology.fabric_text import draw
    from trainyard.scheduling.topology.picture import picture

    declared = _recorded if file is None else _declared
    fabric = compile_fabric(declared(file or Path(from_), from_, tiers, labels, qualify).settings)
    if svg is None:
        typer.echo(draw(fabric))
    elif str(svg) == "-":
        typer.echo(picture(fabric), nl=False)
    else:
        try:
            svg.write_text(picture(fabric), encoding="utf-8")
        except OSError as error:
            raise TrainyardError(f"{svg} cannot be written: {error.strerror}", fix="name another file") from error
        typer.echo(f"{svg}: {len(fabric.nodes)} nodes, {len(fabric.domains)} domains")


def _recorded(
    file: Path, from_: str, tiers: list[str] | None, labels: list[str] | None, qualify: bool
) -> ImportedFabric:
    """Return the fabric of a snapshot, if option --from names one instead of a format."""
    from trainyard.scheduling.topology.sources import SOURCES, source
    from trainyard.scheduling.topology.sources.base import Options

    if from_ in SOURCES:
        raise TrainyardError("FILE is missing", fix=_NO_FILE)
    if from_ != "-" and not file.exists():
        source(from_)  # raises with the formats
    with _named_in_errors(file):
        return source("hypernodes").read(_recorded_fabric(file), Options(tuple(tiers or ()), _pairs(labels), qualify))


def _recorded_fabric(file: Path) -> str:
    """Return the HyperNodes and nodes of a snapshot, as JSON."""
    import orjson

    from trainyard.cli.common import recorded_state

    bodies = [each for each in recorded_state(file).objects if each.get("kind") in ("HyperNode", "Node")]
    return orjson.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}).decode()


def _declared(
    file: Path, from_: str, tiers: list[str] | None, labels: list[str] | None, qualify: bool
) -> ImportedFabric:
    from trainyard.scheduling.topology.sources import SOURCES, source
    from trainyard.scheduling.topology.sources.base import Options

    if from_ not in SOURCES and Path(from_).exists():
        raise TrainyardError(f"--from {from_} and FILE {file} are both files", fix="leave out FILE, or --from")
    chosen, options = source(from_), Options(tuple(tiers or ()), _pairs(labels), qualify)
    with _named_in_errors(file):
        return chosen.read(text_of(file), options)


@contextmanager
def _named_in_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except TrainyardError as error:
        raise TrainyardError(f"{file}: {error.message}", fix=error.fix, findings=error.findings) from error


def _live(
    from_: str,
    kubeconfig: Path | None,
    context: str | None,
    tiers: list[str] | None,
    labels: list[str] | None,
    qualify: bool,
) -> ImportedFabric:
    import asyncio

    from trainyard.cluster_state.nodes import read_nodes
    from trainyard.scheduling.topology.sources.base import Options
    from trainyard.scheduling.topology.sources.node_labels import fabric_of_nodes

    if from_ != "nodes" or kubeconfig is None:
        raise TrainyardError(
            "Neither a file nor a cluster is given", fix="set FILE, or use --from nodes --kubeconfig FILE"
        )
    nodes = asyncio.run(read_nodes(kubeconfig, context))
    return fabric_of_nodes(nodes, Options(tuple(tiers or ()), _pairs(labels), qualify))


def _pairs(labels: list[str] | None) -> tuple[tuple[str, str], ...]:
    pairs = tuple(text.partition("=")[::2] for text in labels or ())
    for tier, key in pairs:
        if not tier or not key:
            raise TrainyardError(f"--label {tier or key!r} is not TIER=KEY", fix="write --label rack=example.com/rack")
    return pairs
