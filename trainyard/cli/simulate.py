"""`trainyard simulate`: replay a scenario on its own control plane, check it and draw it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import Output, line_progress
from trainyard.errors import TrainyardError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog="Example: trainyard simulate two-teams.yaml --out timeline.html")(_simulate)


def _simulate(
    scenario: Annotated[Path, typer.Argument(help="Scenario file; see docs/simulate.md")],
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the timeline: .svg, or .html with a table of the jobs.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the cluster.")] = "simulate",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the control plane running for the next replay.")] = False,
) -> None:
    """Replay a scenario with the real scheduler; exit 1 if an expectation does not hold."""
    from rich.console import Console

    from trainyard.local.simulate.replay_report import as_json, as_text
    from trainyard.local.simulate.scenario import load_scenario
    from trainyard.local.simulate.session import ReplaySession

    if out is not None and out.suffix not in (".svg", ".html"):
        raise TrainyardError(f"{out} is neither .svg nor .html", fix="use one of these suffixes")
    loaded = load_scenario(scenario)
    progress = line_progress(Console(stderr=True, soft_wrap=True, highlight=False))
    session = ReplaySession(name)
    kept = keep or session.running
    try:
        session.open(progress, nodes=len(loaded.fabric.nodes))
        with progress.step(f"Replay {loaded.name}") as step:
            replay = session.replay(loaded, lambda instant, share: step.update(f"at {instant}", fraction=share))
    finally:
        if not kept:
            session.close()
    if out is not None:
        _write(out, replay)
    typer.echo(json_text(as_json(replay)) if output is Output.JSON else as_text(replay))
    raise typer.Exit(0 if replay.holds else 1)


def _write(path: Path, replay: object) -> None:
    from trainyard.local.simulate.replay import Replay
    from trainyard.local.simulate.replay_report import as_page
    from trainyard.local.simulate.replay_svg import draw

    assert isinstance(replay, Replay)  # noqa: S101
    try:
        path.write_text(as_page(replay) if path.suffix == ".html" else draw(replay))
    except OSError as error:
        raise TrainyardError(f"{path} cannot be written: {error.strerror}", fix="check the folder") from error
