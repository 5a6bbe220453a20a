"""The settings reference is what the models say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tools.reference.settings import reference
from trainyard.settings.messages import member_type
from trainyard.settings.stack import StackSettings

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/settings.md"


def test_the_page_is_up_to_date() -> None:
    command = "python -m tools.reference.settings > docs/reference/settings.md"
    assert PAGE.read_text() == reference(), f"write it again: {command}"


def models(annotation: Any, seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation, seen)
    for argument in getattr(annotation, "__args__", ()):
        yield from models(argument, seen)


def test_every_setting_is_described() -> None:
    for model in models(StackSettings, set()):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_a_member_of_a_settings_type_is_found_by_its_key() -> None:
    tenants = member_type(StackSettings, "tenants")
    tenant = member_type(tenants, "any")
    assert member_type(tenant, "maxAcceleratorsPerJob") is not None
    assert member_type(tenant, "nothing") is None
