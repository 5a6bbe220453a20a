"""Index of a catalog folder: aliases, owners, dates and the changelog."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

_Version = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")]
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_Name = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=50)]


class _IndexModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class IndexDeprecation(_IndexModel):
    """Deprecation date, and the date until which the version is guaranteed."""

    since: date
    remove_after: date

    @model_validator(mode="after")
    def _in_order(self) -> IndexDeprecation:
        if self.remove_after < self.since:
            raise ValueError(f"removeAfter {self.remove_after} is before since {self.since}")
        if self.remove_after == self.since:
            raise ValueError(
                f"removeAfter {self.remove_after} is the day of the deprecation: users need time to migrate"
            )
        return self


class IndexVersion(_IndexModel):
    """One version: its release and its changelog entry."""

    released: date | None = None
    changes: str = Field(min_length=1)
    deprecated: IndexDeprecation | None = None


class IndexRuntime(_IndexModel):
    """One runtime: its owner, its versions, and the version to which its plain name refers.

    `also_named` lists synonyms of the plain name. `retired` reserves the numbers of retired versions: a number in
    published results must not be reused.
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
            raise ValueError("has no version")
        if self.alias is not None and self.alias not in self.versions:
            raise ValueError(f"alias {self.alias} is not one of the versions {', '.join(self.versions)}")
        if self.also_named and self.alias is None:
            raise ValueError("alsoNamed requires alias")
        if again := sorted(set(self.versions) & set(self.retired)):
            raise ValueError(f"version {again[0]} was retired on {self.retired[again[0]]}: use a new number")
        return self


class Index(_IndexModel):
    """Content of ``index.yaml``."""

    runtimes: dict[_Name, IndexRuntime]


def version_key(version: str) -> tuple[int, ...]:
    """Return the sort key of a version."""
    return tuple(int(part) for part in version.split("."))


_FIELDS: Final = {
    2: ("owner", "summary", "alias", "alsoNamed", "versions", "retired"),
    4: ("released", "changes", "deprecated"),
    5: ("since", "removeAfter"),
}
"""Order of the keys, by the depth of their mapping."""


def index_rank(path: tuple[str | int, ...], key: str) -> Any:
    """Return the sort key of an index key: runtimes by name, versions by number, fields as documented."""
    depth = len(path)
    if depth == 1:
        return key
    if depth == 3:
        return version_key(key)
    fields = _FIELDS.get(depth, ())
    return fields.index(key) if key in fields else len(fields)
