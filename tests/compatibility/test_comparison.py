"""The comparison sees what differs and only that."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.compatibility import ours, peer
from tests.compatibility.compared_case import Scene
from tests.compatibility.comparison import Comparison, compare
from tests.compatibility.corpus import corpus
from tests.compatibility.corpus.case import Case
from tests.compatibility.corpus.wild import wild
from tests.compatibility.measure import Shares
from tests.compatibility.object_differences import canonical, differences
from trainyard.checks.finding import Finding

CASE = next(case for case in corpus() if case.name == "framework-plain-two")


def config_map(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"runtime": text}}


def agreed(case: Case = CASE) -> tuple[Scene, dict[str, Any]]:
    """Return a scene in which upstream's answer is ours."""
    case = copy.deepcopy(case)
    mine = ours.answer(case, "uid")
    theirs = peer.Answer(
        runtime=peer.Verdict(), train_job=peer.Verdict(), stored=case.train_job, objects=dict(mine.objects)
    )
    return Scene.of(case, theirs, mine, None), json.loads(json.dumps(mine.objects))


def test_equal_answers_need_no_difference() -> None:
    scene, admitted = agreed()
    found = compare(scene, admitted)
    assert (found.used, found.findings) == ([], [])


def test_another_value_is_a_finding() -> None:
    scene, admitted = agreed()
    admitted["JobSet/job"]["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = 9
    findings = compare(scene, admitted).findings
    assert findings == ["JobSet/job.spec.replicatedJobs[0].template.spec.parallelism: upstream 2, ours 9"]


def test_another_object_is_a_finding() -> None:
    scene, admitted = agreed()
    admitted["Secret/job"] = {"kind": "Secret", "metadata": {"name": "job"}}
    assert compare(scene, admitted).findings


def test_an_unexplained_denial_is_a_finding() -> None:
    scene, admitted = agreed()
    scene.theirs.stored, scene.theirs.train_job = None, peer.Verdict(403, "spec.trainer: Invalid value: 1: no")
    assert "upstream denied, ours made" in compare(scene, admitted).findings[0]


def test_paths_of_upstreams_messages_are_read() -> None:
    message = (
        'admission webhook "v" denied the request: [spec.trainer.env: Invalid value: [{"name":"A"}]: must not, '
        "spec.trainer.args[1]: Invalid value: 1: must not, spec.annotations[a.io/b]: Invalid value: 1: no]"
    )
    assert peer.Verdict(403, message).paths == {"spec.trainer.env", "spec.trainer.args[1]", "spec.annotations[a.io/b]"}


def test_one_amount_has_one_notation_and_snapshots_are_read() -> None:
    left = {"spec": {"resources": {"limits": {"cpu": "1500m", "memory": "1Ki", "nvidia.com/gpu": 2}, "requests": {}}}}
    right = {"spec": {"resources": {"limits": {"cpu": "1.5", "memory": "1024", "nvidia.com/gpu": "2"}}}}
    assert canonical(left) == canonical(right)
    texts = "kind: X\nmetadata: {name: a}", '{"kind": "X", "metadata": {"name": "a"}}'
    one, other = (canonical(config_map("a-runtime-snapshot", text)) for text in texts)
    assert one == other


def test_differences_name_the_place_and_both_sides() -> None:
    assert list(differences({"a": [{"b": 1}]}, {"a": [{"b": 2}]})) == ["a[0].b: upstream 1, ours 2"]
    assert list(differences({"a": 1}, {})) == ['a: upstream 1, ours "(none)"']


def test_a_warning_of_upstream_must_be_one_of_ours() -> None:
    scene, admitted = agreed()
    scene.theirs.train_job = peer.Verdict(201, warnings=("beware of this",))
    (finding,) = compare(scene, admitted).verdicts
    assert "upstream warns 'beware of this'" in finding
    scene.mine.warnings = (Finding.warning("spec", "beware of this"),)
    assert compare(scene, admitted).findings == []


def test_every_error_of_ours_needs_a_row() -> None:
    scene, admitted = agreed()
    known = Finding("spec.trainer.numNodes", "Input should be greater than or equal to 1, but is 0")
    scene.case.train_job["spec"]["trainer"] = {"numNodes": 0}
    scene.mine.errors = (known,)
    assert compare(scene, admitted).used == ["lower-bounds"]
    scene.mine.errors = (known, Finding("spec", "something else"))
    assert compare(scene, admitted).verdicts
    scene.case.train_job["spec"]["trainer"] = {"numNodes": 2}
    scene.mine.errors = (known,)
    assert compare(scene, admitted).verdicts, "the row recomputes what it promises"


def test_shares_count_verdicts_and_objects() -> None:
    comparisons = {
        "a": Comparison(rendered=True),
        "b": Comparison(rendered=True, objects=["x"]),
        "c": Comparison(verdicts=["y"]),
    }
    shares = Shares.of(comparisons)
    assert (shares.cases, shares.verdicts, shares.rendered, shares.objects, shares.enough) == (3, 2, 2, 1, False)
    assert "66.67%" in str(shares)
    assert Shares.of({"a": Comparison(rendered=True)}).enough


def test_cases_of_a_seed_are_the_same_on_every_run() -> None:
    first, second = (json.dumps([case.documents() for case in wild(20, 3)]) for _ in range(2))
    assert first == second
    assert any(case.updates for case in wild(20, 3))
