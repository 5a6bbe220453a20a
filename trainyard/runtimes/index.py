"""The index of a catalogue folder: aliases, owners, dates and the changelog."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

__all__ = ["Index", "IndexDeprecation", "IndexRuntime", "IndexVersion"]

_Version = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")]
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_Name = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=50)]


class _IndexModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class IndexDeprecation(_IndexModel):
    """When a version was deprecated and may be removed."""

    since: date
    remove_after: date

    @model_validator(mode="after")
    def _in_order(self) -> IndexDeprecation:
        if self.remove_after < self.since:
            raise ValueError(f"removeAfter {self.remove_after} is before since {self.since}")
        return self


class IndexVersion(_IndexModel):
    """One version: its release and what it brought."""

    released: date | None = None
    changes: str = Field(min_length=1)
    deprecated: IndexDeprecation | None = None


class IndexRuntime(_IndexModel):
    """One runtime: who answers for it, and which version its plain name stands for."""

    owner: str = Field(min_length=1)
    summary: str = Field(min_length=1)
    alias: _Version | None = None
    versions: dict[_Version, IndexVersion] = Field(min_length=1)

    @model_validator(mode="after")
    def _alias_exists(self) -> IndexRuntime:
        if self.alias is not None and self.alias not in self.versions:
            raise ValueError(f"alias {self.alias} is not one of the versions {', '.join(self.versions)}")
        return self


class Index(_IndexModel):
    """The whole index."""

    runtimes: dict[_Name, IndexRuntime]
