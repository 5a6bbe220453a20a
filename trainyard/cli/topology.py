"""`trainyard topology`: the fabric of a stack, proved, compiled and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.cli.findings import CheckFormat, answer
from trainyard.settings import load_stack

__all__ = ["register"]

_File = Annotated[Path, typer.Argument(help="Stack settings, such as stacks/Pulumi.local.yaml")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The network fabric: nodes, racks and switches.", no_args_is_help=True)
    group.command("check")(_check)
    group.command("compile")(_compile)
    group.command("show")(_show)
    app.add_typer(group, name="topology")


def _check(
    file: _File, output: Annotated[CheckFormat, typer.Option("-o", "--output", help="Format")] = CheckFormat.TEXT
) -> None:
    """Find the faults of the fabric; exit 1 when there are any."""
    from trainyard.topology import check_fabric

    answer(check_fabric(load_stack(file).fabric), output, fine="The fabric is sound.")


def _compile(file: _File) -> None:
    """Print the HyperNodes of the fabric as YAML, in the order to create them in."""
    import yaml

    from trainyard.topology import compile_fabric

    typer.echo(yaml.safe_dump_all(compile_fabric(load_stack(file).fabric).hyper_nodes, sort_keys=False), nl=False)


def _show(file: _File) -> None:
    """Draw the fabric as a tree."""
    from trainyard.topology import compile_fabric, draw

    typer.echo(draw(compile_fabric(load_stack(file).fabric)))
