"""Size and structure of a checkout: ``python -m benchmarks.structure [FOLDER]``.

Counts what a reader meets: files, lines, the length of the median module, basenames that two modules share, imports
between packages, long functions, the files of the renderer that one TrainJob enters more than once, and the
processor time of ``trainyard --help`` as a ratio to an empty interpreter.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_CODE = ("trainyard", "components", "stacks")
_ALL = (*_CODE, "policies", "runtimes", "tests", "benchmarks", "toolchain", "docs")
_LONG = 50
_RUNS = 7
_HERE = Path(__file__).resolve().parent


def figures(root: Path) -> dict[str, float]:
    """Return the figures of a checkout, by name."""
    modules = {path: path.read_text() for path in _tracked(root, _CODE) if path.suffix == ".py"}
    trees = {path: ast.parse(text) for path, text in modules.items()}
    files = list(_tracked(root, _ALL))
    names = Counter(path.name for path in modules if path.name not in ("__init__.py", "__main__.py"))
    return {
        "files": len(files),
        "lines": sum(_lines(path) for path in files),
        "files of policies": sum(path.is_relative_to(root / "policies") for path in files),
        "modules": len(modules),
        "lines of modules": sum(text.count("\n") for text in modules.values()),
        "median lines of a module": statistics.median(text.count("\n") for text in modules.values()),
        "longest module": max(text.count("\n") for text in modules.values()),
        "basenames that modules share": sum(count > 1 for count in names.values()),
        "modules whose basename is shared": sum(count for count in names.values() if count > 1),
        "imports between packages": sum(len(set(_imported(root, path, tree))) for path, tree in trees.items()),
        "functions over 50 lines": sum(length > _LONG for tree in trees.values() for length in _functions(tree)),
        **_render_entries(root),
        "modules that `trainyard --help` imports": _imports(root),
        "start of the command line, as a ratio to an empty interpreter": _start(root),
    }


def _tracked(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    listed = subprocess.check_output(["git", "-C", str(root), "ls-files", "-z", *folders], text=True)
    return (root / name for name in listed.split("\0") if name and (root / name).is_file())


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _imported(root: Path, path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the modules of other packages that a module imports."""
    own = ".".join(path.relative_to(root).parts[:2])
    for node in ast.walk(tree):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name.split(".")[0] in _CODE and ".".join(name.split(".")[:2]) != own:
                yield name


def _functions(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def _render_entries(root: Path) -> dict[str, float]:
    """Return how many files of ``render`` a TrainJob with Torch and a gang enters, and how many more than once."""
    arguments = (str(_HERE / "render_entries.py"), str(root), str(_HERE.parent / "tests/render/golden/torch-gang.yaml"))
    entries = json.loads(_run(root, *arguments))
    return {
        "files of render that a TrainJob enters": len(entries),
        "files of render that a TrainJob enters more than once": sum(count > 1 for count in entries.values()),
        "entries of a TrainJob into the most entered file": max(entries.values()),
    }


def _imports(root: Path) -> int:
    """Return how many modules the start of the command line imports."""
    code = (
        "import atexit, sys; sys.argv = ['trainyard', '--help'];"
        "atexit.register(lambda: print(len(sys.modules)));"
        "from trainyard.cli import main; main()"
    )
    return int(_run(root, "-c", code).split()[-1])


def _run(root: Path, *arguments: str) -> str:
    """Return the output of the environment's Python with a checkout first on its path."""
    command = [sys.executable, *arguments]
    return subprocess.check_output(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, text=True)


def _start(root: Path) -> float:
    return round(_seconds(root, "-m", "trainyard", "--help") / _seconds(root, "-c", ""), 2)


def _seconds(root: Path, *arguments: str) -> float:
    """Return the least processor time of several runs."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""}
    found = []
    for _ in range(_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure", description=__doc__)
    parser.add_argument("root", type=Path, nargs="?", default=Path.cwd(), help="a checkout; the current one if absent")
    print(json.dumps(figures(parser.parse_args().root.resolve()), indent=2))


if __name__ == "__main__":
    main()
