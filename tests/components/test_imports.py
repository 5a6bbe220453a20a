"""Imports of the components: relative, independent of each other, under one name, with stable public names."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import components
from components.common.objects import Component
from components.registry import declarations
from components.training_platform import TrainingPlatform, TrainingPlatformArgs
from tests.components.recording import Recording, record
from tests.components.test_kueue import config as kueue_config
from tests.components.test_training_platform import KUBECONFIG
from tests.golden import assert_golden

FOLDER = Path(components.__file__).parent
SHARED = ("common", "hooks")
INTERFACE = Path(__file__).parent / "golden" / "interface.txt"


@pytest.fixture(scope="module")
def everything(monkeypatch_module: pytest.MonkeyPatch) -> Recording:
    """All components, as parts of a TrainingPlatform."""
    settings = {key: value for key, value in kueue_config().items() if key != "cluster"}
    args = TrainingPlatformArgs(KUBECONFIG, settings)
    monkeypatch_module.setenv("TRAINYARD_NO_CLUSTER", "true")
    return record({}, monkeypatch_module, program=lambda: TrainingPlatform("training", args), preview=True)


def imported(path: Path) -> set[str]:
    """Return the modules of this package that a component's module imports, relative to the package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


def modules() -> Iterator[str]:
    """Yield the modules of components and of their installation; helpers may change."""
    for module in pkgutil.iter_modules(components.__path__, "components."):
        yield module.name


def public(module: str) -> Iterator[str]:
    """Yield the public names of a module, with the type tokens of component resources and the fields of arguments."""
    for name in getattr(importlib.import_module(module), "__all__", ()):
        value = getattr(importlib.import_module(module), name)
        own = isinstance(value, type) and issubclass(value, Component) and value is not Component
        yield f"{module}.{name}" + (f" {token(value)}" if own else "")
        if name.endswith("Args"):
            yield from (f"{module}.{name}.{field.name}: {field.type}" for field in dataclasses.fields(value))


def token(component: type[Component]) -> str:
    """Return the type token of a component, from the first argument of its constructor's super call."""
    tree = ast.parse(Path(sys.modules[component.__module__].__file__ or "").read_text())
    (body,) = (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.name == component.__name__)
    areas = [
        node.args[0].value
        for node in ast.walk(body)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "__init__"
        and isinstance(node.args[0], ast.Constant)
    ]
    return f"trainyard:{areas[0]}:{component.__name__}"


@pytest.mark.parametrize("name", declarations())
def test_a_component_imports_no_other(name: str) -> None:
    assert [each for each in imported(FOLDER / f"{name}.py") if each.split(".")[0] not in SHARED] == []


def test_the_package_does_not_name_itself_in_imports() -> None:
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            assert not {each for each in names if each.split(".")[0] == "components"}, path


def resources() -> Iterator[type[Component]]:
    """Yield the classes of all component resources."""
    for name in modules():
        module = importlib.import_module(name)
        values = (getattr(module, each) for each in getattr(module, "__all__", ()))
        yield from (each for each in values if isinstance(each, type) and issubclass(each, Component))


@pytest.mark.parametrize("resource", list(resources()), ids=lambda each: each.__name__)
def test_a_component_takes_a_name_typed_arguments_and_options(resource: type[Component]) -> None:
    _, name, args, opts, *others = inspect.signature(resource.__init__).parameters.values()
    assert others == [], "dependencies are in opts.depends_on"
    assert (name.name, name.annotation) == ("name", "str")
    assert (args.name, args.annotation) == ("args", f"{resource.__name__}Args")
    assert (opts.name, opts.annotation, opts.default) == ("opts", "pulumi.ResourceOptions | None", None)
    declared = getattr(sys.modules[resource.__module__], args.annotation)
    assert dataclasses.is_dataclass(declared)
    assert args.annotation in sys.modules[resource.__module__].__all__


@pytest.mark.slow
def test_import_paths_arguments_type_tokens_outputs_and_urns_are_stable(
    local: Recording, everything: Recording
) -> None:
    names = [line for module in modules() for line in public(module)]
    outputs = [
        f"{everything.resources[urn].type} {name}"
        for urn, registered in everything.outputs.items()
        if urn in everything.resources
        for name in registered
    ]
    urns = [urn for urn, each in local.resources.items() if not each.name.startswith(("ValidatingAdm", "ConfigMap/"))]
    assert_golden(INTERFACE, "\n".join([*sorted(names), "", *sorted(outputs), "", *sorted(urns)]) + "\n")


@pytest.mark.parametrize(
    ("first", "second"),
    [("components", "trainyard.components"), ("trainyard.components", "components")],
)
def test_the_package_is_not_imported_under_both_names(first: str, second: str, tmp_path: Path) -> None:
    clone, wheel = tmp_path / "clone", tmp_path / "wheel" / "trainyard"
    for folder in (clone, wheel):
        folder.mkdir(parents=True)
        (folder / "components").symlink_to(FOLDER)
    (wheel / "__init__.py").touch()
    program = f"import sys; sys.path[:0] = {[str(clone), str(wheel.parent)]!r}; import {first}; import {second}"
    result = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert f"ImportError: {second} is already imported as {first}" in result.stderr
    assert "use one name in a process" in result.stderr
