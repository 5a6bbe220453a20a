"""Index of a catalog folder: aliases, owners, dates and the changelog."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

__all__ = ["Index", "IndexDeprecation", "IndexRuntime", "IndexVersion", "index_rank", "version_key"]

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
        if self.remove_after == self.since:
            raise ValueError(f"removeAfter {self.remove_after} is the day it is deprecated: users need time to move")
        return self


class IndexVersion(_IndexModel):
    """One version: its release and what it brought."""

    released: date | None = None
    changes: str = Field(min_length=1)
    deprecated: IndexDeprecation | None = None


class IndexRuntime(_IndexModel):
    """One runtime: who answers for it, and which version its plain name stands for.

    `also_named` lists further names that mean the same as the plain one. `retired` keeps the numbers of versions that
    are gone, because a number that results were reported with must not come to mean something else.
    """

    owner: str = Field(min_length=1)
    summary: str = Field(min_length=1)
    alias: _Version | None = None
    also_named: tuple[_Name, ...] = ()
    versions: dict[_Version, IndexVersion] = Field(default={})
    retired: dict[_Version, date] = Field(default={})

    @model_validator(mode="after")
    def _fits(self) -> IndexRuntime:
        if not self.versions and not self.retired:
            raise ValueError("there is no version")
        if self.alias is not None and self.alias not in self.versions:
            raise ValueError(f"alias {self.alias} is not one of the versions {', '.join(self.versions)}")
        if self.also_named and self.alias is None:
            raise ValueError("alsoNamed names what alias stands for, and there is no alias")
        if again := sorted(set(self.versions) & set(self.retired)):
            raise ValueError(f"version {again[0]} was retired on {self.retired[again[0]]}: take a number that is new")
        return self


class Index(_IndexModel):
    """The whole index."""

    runtimes: dict[_Name, IndexRuntime]


def version_key(version: str) -> tuple[int, ...]:
    """Return what versions are sorted by."""
    return tuple(int(part) for part in version.split("."))


_FIELDS: Final = {
    2: ("owner", "summary", "alias", "alsoNamed", "versions", "retired"),
    4: ("released", "changes", "deprecated"),
    5: ("since", "removeAfter"),
}
"""The order of the keys by the depth of their mapping."""


def index_rank(path: tuple[str | int, ...], key: str) -> Any:
    """Return what the keys of an index are sorted by: runtimes by name, versions by number, fields as documented."""
    depth = len(path)
    if depth == 1:
        return key
    if depth == 3:
        return version_key(key)
    fields = _FIELDS.get(depth, ())
    return fields.index(key) if key in fields else len(fields)
