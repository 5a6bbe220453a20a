"""``trainyard images``: images of the platform without a registry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import Output, line_progress
from trainyard.local.images.load_targets import LoadTarget

if TYPE_CHECKING:
    from trainyard.local.images.built_image import BuiltImage
    from trainyard.progress import Progress


_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Images; by default all but optional ones.")]
_Out = Annotated[
    Path | None, typer.Option("--out", help="Folder of the archives; by default in the cache.", file_okay=False)
]
_Format = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(
        help="Build the platform's images without a registry, load them into a node, or push them.",
        no_args_is_help=True,
        epilog="Example: trainyard images build opa && trainyard images load opa --into podman",
    )
    group.command(epilog="Example: trainyard images build trainyard-controller opa --out dist/images")(build)
    group.command("list", epilog="Example: trainyard images list -o json")(list_images)
    group.command(epilog="Example: trainyard images load --into kind --cluster dev")(load)
    group.command(epilog="Example: trainyard images push registry.example/platform --credentials pull.json")(push)
    group.command(epilog="Example: trainyard images settings --registry registry.example/platform")(settings)
    app.add_typer(group, name="images")


def build(names: _Names = None, out: _Out = None, output: _Format = Output.TEXT) -> None:
    """Build images whose inputs have changed, with a bill of materials each, and write images.lock."""
    from trainyard.local.cluster.image_sources import image_builder

    progress = _progress()
    _show(image_builder(out, progress=progress).build(names or (), progress), output)


def list_images(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Images; by default all.")] = None,
    out: _Out = None,
    output: _Format = Output.TEXT,
) -> None:
    """List images: reference, digest, size, state, user, and the reasons of exceptions; builds nothing."""
    from trainyard.local.cluster.image_sources import image_builder

    _show(image_builder(out, build=False).images(names or ()), output)


def load(
    names: _Names = None,
    into: Annotated[
        LoadTarget | None, typer.Option("--into", help="By default containerd, podman or docker, whichever responds.")
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="Name of the kind cluster.")] = "kind",
    address: Annotated[str | None, typer.Option("--address", help="Socket of containerd; by default its own.")] = None,
    out: _Out = None,
    output: _Format = Output.TEXT,
) -> None:
    """Load built images into containerd, podman, docker or a kind cluster."""
    from trainyard.local.cluster.image_sources import image_builder
    from trainyard.local.images.load_targets import detect
    from trainyard.local.images.load_targets import load as load_images

    images = image_builder(out, build=False).archives(names or ())
    target = into or detect()
    loaded = load_images(images, target, cluster=cluster, address=address)
    if output is Output.JSON:
        typer.echo(json_text({"into": target.value, "images": loaded}))
    else:
        typer.echo("\n".join(f"{reference} is in {target.value}" for reference in loaded))


def push(
    registry: Annotated[str, typer.Argument(metavar="REGISTRY", help="Host, with an optional port and prefix.")],
    names: _Names = None,
    credentials: Annotated[
        Path | None,
        typer.Option(
            "--credentials", help="Docker configuration, as in a pull secret; by default that of docker login."
        ),
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", help="Certificate authority of the registry, as PEM.", dir_okay=False)
    ] = None,
    out: _Out = None,
    output: _Format = Output.TEXT,
) -> None:
    """Push built images to a registry, over TLS except to this machine."""
    from trainyard.local.cluster.image_sources import image_builder
    from trainyard.local.images.registry_push import push_images

    images = image_builder(out, build=False).archives(names or ())
    pushed = asyncio.run(push_images(images, registry, credentials, ca, _progress()))
    if output is Output.JSON:
        typer.echo(json_text({"images": pushed}))
    else:
        typer.echo("\n".join(pushed))


def settings(
    names: _Names = None,
    registry: Annotated[
        str | None, typer.Option("--registry", help="Registry with the pushed images; by default loaded images.")
    ] = None,
    out: _Out = None,
) -> None:
    """Print the settings of a stack that use the built images."""
    from trainyard.local.cluster.image_sources import image_builder
    from trainyard.local.images.image_lock import settings_fragment

    builder = image_builder(out, build=False)
    typer.echo(settings_fragment(builder.locked(names or ()), registry), nl=False)


def _show(images: list[BuiltImage], output: Output) -> None:
    from trainyard.local.images.image_table import image_table

    if output is Output.JSON:
        typer.echo(json_text({"images": [image.as_json() for image in images]}))
    else:
        typer.echo(image_table(images))


def _progress() -> Progress:
    from rich.console import Console

    return line_progress(Console(stderr=True, soft_wrap=True, highlight=False))
