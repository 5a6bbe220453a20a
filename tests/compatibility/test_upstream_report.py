"""The report on a newer Kubeflow Trainer names what changed, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.compatibility.upstream import CRDS, WEBHOOKS, report

GO = """package runtime

// Explains.
func (r *Runtime) Build(info *Info) error {{
	return fmt.Errorf("{message}")
}}
"""


def release(folder: Path, *, minimum: int, message: str, comment: str = "", value: str = "a") -> Path:
    """Write the sources of a version."""
    count = {"type": "integer", "minimum": minimum, "default": minimum, "description": comment}
    spec = {"type": "object", "properties": {"count": count}}
    schema = {"type": "object", "properties": {"spec": spec}}
    crd = {"spec": {"names": {"plural": "trainjobs"}, "versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    webhook = {"kind": "ValidatingWebhookConfiguration", "webhooks": [{"name": "v", "failurePolicy": "Fail"}]}
    texts = {
        f"{CRDS}/trainer.kubeflow.org_trainjobs.yaml": yaml.safe_dump(crd),
        WEBHOOKS: yaml.safe_dump(webhook),
        "pkg/runtime/build.go": f"{GO.format(message=message)}\n// {comment}\n",
        "pkg/runtime/build_test.go": f"func Test{message}() {{\n}}\n",
        "pkg/constants/constants.go": f'const (\n\tImage string = "{value}"\n)\n',
        "go.mod": "require (\n\tsigs.k8s.io/jobset v0.12.0\n)\n",
    }
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def changes(old: Path, new: Path) -> list[str]:
    return [line for line in report(old, new) if line[:1] in "+-~" and line]


def test_descriptions_comments_and_tests_are_no_changes(tmp_path: Path) -> None:
    old = release(tmp_path / "old", minimum=1, message="bad", comment="one")
    new = release(tmp_path / "new", minimum=1, message="bad", comment="two")
    assert changes(old, new) == []


def test_fields_defaults_messages_constants_and_functions_are_named(tmp_path: Path) -> None:
    old = release(tmp_path / "old", minimum=1, message="bad")
    new = release(tmp_path / "new", minimum=2, message="worse", value="b")
    assert changes(old, new) == [
        '~ trainjobs spec.count: {"minimum": 1, "type": "integer"} -> {"minimum": 2, "type": "integer"}',
        "~ trainjobs spec.count: 1 -> 2",
        '- pkg/runtime/build.go: "bad"',
        '+ pkg/runtime/build.go: "worse"',
        '~ Image: "a" -> "b"',
        "~ pkg/runtime/build.go Runtime.Build",
    ]


@pytest.mark.slow
def test_the_changes_of_v2_3_are_found(tmp_path: Path) -> None:
    from tests.api.schemas import _folder

    lines = set(changes(_folder("v2.2.1"), _folder("v2.3.0")))
    assert any(line.startswith("+ trainingruntimes spec.mlPolicy.torch.envInjection:") for line in lines)
    assert "~ sigs.k8s.io/jobset: v0.11.1 -> v0.12.0" in lines
    assert any("invalid envs configured" in line for line in lines)
    assert any(line.startswith("~ pkg/runtime/framework/plugins/flux/flux.go") for line in lines)
