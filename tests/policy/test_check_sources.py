"""Reading what is to be checked: nothing is lost, nothing is guessed, nothing brings the reader down."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.policy.check.sources import Sources, read_sources

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"


def read(*paths: Path | str, stdin: str = "", allow_no_objects: bool = False) -> Sources:
    return read_sources([str(path) for path in paths], stdin=lambda: stdin, allow_no_objects=allow_no_objects)


def written(folder: Path, text: str, name: str = "a.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(sources: Sources) -> list[str]:
    return [manifest.name for manifest in sources.manifests]


def test_every_document_of_a_stream_is_an_object() -> None:
    text = f"---\n# Source: chart/templates/pod.yaml\n{POD}---\n# nothing\n---\n{POD.replace('p}', 'q}')}"
    assert names(read("-", stdin=text)) == ["p", "q"]


def test_lists_are_unpacked_at_any_depth_and_typed_ones_stamp_their_items() -> None:
    text = """
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Pod, metadata: {name: a}}
  - apiVersion: v1
    kind: PodList
    items: [{metadata: {name: b}}]
"""
    sources = read("-", stdin=text)
    assert [(each.kind, each.name, each.line()) for each in sources.manifests] == [("Pod", "a", 5), ("Pod", "b", 8)]


def test_other_yaml_is_passed_over_in_a_folder_and_an_error_where_it_is_named(tmp_path: Path) -> None:
    values = written(tmp_path, "replicas: 2\n", "values.yaml")
    written(tmp_path, POD)
    sources = read(tmp_path)
    assert names(sources) == ["p"]
    assert [note.endswith("contains no Kubernetes object: skipped") for note in sources.notes] == [True]
    with pytest.raises(TrainyardError, match="contains no Kubernetes object"):
        read(values)
    assert names(read(values, allow_no_objects=True)) == []


def test_a_template_is_passed_over_with_a_note(tmp_path: Path) -> None:
    written(tmp_path, "kind: Pod\nmetadata:\n{{- if .Values.x }}\n  name: a\n{{- end }}\n")
    sources = read(tmp_path)
    assert (names(sources), sources.faults) == ([], ())
    assert "is a template" in sources.notes[0]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("kind: [\n", "is not valid YAML"),
        ("a: &a [*a]\nkind: Pod\n", "an alias refers to a collection that contains it"),
        ("a: .nan\n", "is not a number in JSON"),
        ("a: !!set {x}\n", "tag !!set is not supported"),
        ("? [a]\n: b\n", "is not valid YAML"),
        ("a: !!binary aGk=\n", "tag !!binary is not supported"),
        ("a: !python/object:os.system x\n", "is not supported"),
        ("[" * 100_000, "is not valid YAML"),
        ("kind: Pod\nkind: Pod\n", "duplicate key 'kind' (line 2)"),
    ],
)
def test_what_is_no_manifest_is_a_finding_and_no_crash(text: str, finding: str) -> None:
    (fault,) = read("-", stdin=text).faults
    assert finding in fault.message
    assert fault.severity == "error"


def test_what_comes_before_a_fault_is_still_checked() -> None:
    sources = read("-", stdin=f"{POD}---\nkind: [\n")
    assert (names(sources), sources.faults[0].line) == (["p"], 6)


def test_keys_become_text_and_timestamps_stay_text() -> None:
    (manifest,) = read("-", stdin=f"{POD}spec: {{2: a, true: b, when: 2026-01-01}}\n").manifests
    assert manifest.body["spec"] == {"2": "a", "true": "b", "when": "2026-01-01"}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 2),
        ("metadata", 4),
        ("metadata.annotations[a.b/c]", 6),
        ("spec.containers[1].image", 11),
        ("spec.containers[7].image", 8),
        ("spec.nothing.there", 7),
        ("parameters", 2),
    ],
)
def test_a_field_is_found_in_its_file(path: str, line: int) -> None:
    text = """# comment
apiVersion: v1
kind: Pod
metadata:
  annotations:
    a.b/c: x
spec:
  containers:
    - name: a
    - name: b
      image: x
"""
    (manifest,) = read("-", stdin=text).manifests
    assert manifest.line(path) == line


@pytest.mark.parametrize(
    "text",
    [
        f"# {{{{ .Values.x }}}}\n{POD}kind: Pod\n",
        f'{POD}a: "{{{{ .x }}}}"\nkind: Pod\n',
        f"{POD}a: '{{{{ .x }}}}'\nkind: Pod\n",
        f'a: "{{{{"\n{POD}kind: Pod\nb: "}}}}"\n',
        f'x: {{a: "{{{{", b: 1, b: 2, c: "}}}}"}}\n{POD}',
        f"{POD}# {{{{ if }}}}\na: .nan\n",
        f"{POD}x: &x [*x]\n# {{{{ }}}}\n",
        "# {{ }}\n" + "[" * 1000,
        f"{POD}a: [  # {{{{ }}}}\n",
    ],
)
def test_a_fault_beside_an_action_is_a_fault(tmp_path: Path, text: str) -> None:
    written(tmp_path, text)
    assert [each.severity for each in read(tmp_path).faults] == ["error"]


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
        "kind: Pod\nmetadata:\n  name: {{ .Release.Name }}-a\n",
        "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n",
        "kind: Pod\nspec:\n  {{ if .Values.on }}\n  # a comment\n  a: 1\n  {{ else }}\n  a: 2\n  {{ end }}\n",
        'kind: Pod\nmetadata:\n  labels:\n    {{- include "a.labels" . | nindent 4 }}\n',
        'kind: Pod\nspec:\n  list: [{{ join ", " .Values.list }}]\n',
    ],
)
def test_templates_are_noted(tmp_path: Path, text: str) -> None:
    written(tmp_path, text)
    sources = read(tmp_path)
    assert sources.faults == ()
    assert "is a template" in sources.notes[0]


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2003 # comment", "\x0b"])
def test_a_separator_of_kubectl_that_yaml_reads_as_text_is_a_fault(blank: str) -> None:
    hidden = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: 'x\n\n---{blank}\n'}}\n"
    (fault,) = read("-", stdin=hidden).faults
    assert "is not valid YAML" in fault.message


def test_lists_are_unpacked_or_a_fault() -> None:
    text = "{apiVersion: v1, kind: List, items: [" * 20 + "{apiVersion: v1, kind: Pod}" + "]}" * 20
    (fault,) = read("-", stdin=text, allow_no_objects=True).faults
    assert fault.message == "has too many Lists inside each other"


def test_a_kustomization_is_noted_because_its_patches_and_resources_are_not_checked(tmp_path: Path) -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [pod.txt]\n"
    path = written(tmp_path, text, "kustomization.yaml")
    assert read(tmp_path).notes == (f"{path}: Kustomization is not built; check the output of kustomize build",)


def test_what_is_not_read_is_a_fault_or_a_note(tmp_path: Path) -> None:
    written(tmp_path, POD)
    written(tmp_path, POD, ".hidden/b.yaml")
    (tmp_path / "c.yaml").symlink_to("/dev/zero")
    sources = read(tmp_path)
    assert [(each.message, each.severity) for each in sources.faults] == [(f"is a link out of {tmp_path}", "error")]
    assert sources.notes == (f"{tmp_path}/.hidden is a hidden folder: not searched",)


def test_an_object_that_no_api_server_accepts_is_too_large() -> None:
    for spec in ("x" * 3 * 1024**2, "語" * 1024**2, f"&a {'x' * 1024**2}, b: [*a, *a]"):
        (fault,) = read("-", stdin=f"{POD}spec: {{a: {spec}}}\n").faults
        assert fault.message == "is larger than 3 MiB, which the API server rejects"
    assert read("-", stdin=f"{POD}# {'x' * 3 * 1024**2}\n").faults == ()
