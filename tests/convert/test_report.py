"""The report of a conversion: losses first, and changes of one kind in one line."""

from __future__ import annotations

from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.conversion_report import as_text
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding

OBJECT: Body = {"kind": "TrainJob", "metadata": {"name": "a"}}


def note(path: str, fidelity: Fidelity, message: str, fix: str = "") -> FieldFinding:
    return FieldFinding.of(path, "x", fidelity, message, fix)


def conversion(name: str, *notes: FieldFinding) -> Conversion:
    return Conversion(f"RayJob default/{name}", (OBJECT,), notes)


def lines(*conversions: Conversion, every: bool = False) -> list[str]:
    return [line.removeprefix("# ") for line in as_text(conversions, every=every).splitlines()]


def options(number: int) -> list[FieldFinding]:
    return [note(f"spec.sparkConf[k{index}]", Fidelity.CHANGED, "an option") for index in range(number)]


def test_forty_changes_of_one_kind_are_one_line_below_the_loss() -> None:
    found = lines(conversion("a", *options(40), note("spec.x", Fidelity.LOST, "gone", "add it")))
    assert found == [
        "RayJob default/a: TrainJob a",
        "  lost: spec.x: gone (add it)",
        "  changed: spec.sparkConf[k0], spec.sparkConf[k1], spec.sparkConf[k2] and 37 others: an option",
        "1 job converted: 1 lost, 40 changed, 0 the same",
    ]


def test_changes_that_ask_for_something_come_before_those_that_do_not() -> None:
    found = lines(conversion("a", *options(4), note("spec.y", Fidelity.CHANGED, "other", "look at it")))
    assert found[1].startswith("  changed: spec.y: ")
    assert found[2].startswith("  changed: spec.sparkConf[k0], spec.sparkConf[k1], spec.sparkConf[k2] and 1 other: ")


def test_losses_of_every_job_come_before_changes_of_any() -> None:
    one = conversion("a", *options(1), note("spec.x", Fidelity.LOST, "gone", "add it"))
    other = conversion("b", note("spec.z", Fidelity.LOST, "gone too", "add it"), *options(2))
    found = lines(one, other)
    lost = [index for index, line in enumerate(found) if line.startswith("  lost")]
    changed = [index for index, line in enumerate(found) if line.startswith("  changed")]
    assert max(lost) < min(changed)
    assert found[: max(lost) + 1] == [
        "RayJob default/a: TrainJob a",
        "  lost: spec.x: gone (add it)",
        "RayJob default/b: TrainJob a",
        "  lost: spec.z: gone too (add it)",
    ]
    assert found[max(lost) + 1] == "RayJob default/a, changed:"


def test_all_fields_are_listed_one_by_one_where_they_are_asked_for() -> None:
    found = lines(conversion("a", *options(3), note("spec.s", Fidelity.LOSSLESS, "as it was")), every=True)
    assert [line for line in found if "k2" in line] == ["  changed: spec.sparkConf[k2]: an option"]
    assert "  lossless: spec.s: as it was" in found
