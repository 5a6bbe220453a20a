"""Each field of the old schemas is kept, mapped, or lost in words: none is merely unknown."""

from __future__ import annotations

import pytest

from tests.convert.schema_fields import SCHEMAS, conversions_of, fields_of, notes_of

KINDS = sorted(path.stem for path in SCHEMAS.glob("*.txt"))
KEPT = ("template", "submitterPodTemplate")
SLICE = 40


@pytest.mark.parametrize(
    ("kind", "start"), [(kind, start) for kind in KINDS for start in range(0, len(fields_of(kind)), SLICE)]
)
def test_every_field_of_the_old_schema_has_an_entry(kind: str, start: int) -> None:
    missing, unknown = [], []
    for field, path, conversion in conversions_of(kind, start, start + SLICE):
        found = notes_of(path, conversion)
        if not found and not field.endswith(KEPT):
            missing.append(field)
        elif any("is not known here" in note.message for note in found):
            unknown.append(field)
    assert missing == []
    assert unknown == []


def test_a_field_that_no_schema_has_is_unknown() -> None:
    field, path, conversion = next(conversions_of("RayJob"))
    assert notes_of(path, conversion), field
    assert not notes_of("spec.unheardOf", conversion)
