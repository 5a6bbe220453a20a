"""The page about conversion shows what the conversions do."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.convert.field_table import table
from trainyard.jobs.convert.kinds import KINDS

PAGE = Path(__file__).parent.parent.parent / "docs" / "convert.md"
FIELDS = re.compile(r"(?<=<!-- fields -->\n).*?(?=<!-- end of fields -->)", re.DOTALL)


def test_the_page_has_the_table_of_all_fields() -> None:
    text = PAGE.read_text()
    if os.environ.get("TRAINYARD_UPDATE_GOLDENS"):
        text = FIELDS.sub(lambda _: table(), text)
        PAGE.write_text(text)
    found = FIELDS.search(text)
    assert found is not None
    assert found.group() == table(), "make generate writes it again"


def test_the_page_names_every_kind() -> None:
    text = PAGE.read_text()
    for version, kind in KINDS:
        assert kind in text
        assert version in text
