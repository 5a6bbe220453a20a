"""Catalog of training runtimes: versioned files, immutable once released, referenced by name or alias."""

from trainyard.jobs.runtimes.authoring import AuthoredVersion, Release, author
from trainyard.jobs.runtimes.catalog import (
    ALIAS_ANNOTATION,
    RELEASED_ANNOTATION,
    Catalog,
    Deprecation,
    Runtime,
    RuntimeVersion,
    State,
    spec_hash,
)
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.jobs.runtimes.installed_catalog import installed_catalog

__all__ = [
    "ALIAS_ANNOTATION",
    "RELEASED_ANNOTATION",
    "AuthoredVersion",
    "Catalog",
    "Deprecation",
    "Release",
    "Runtime",
    "RuntimeVersion",
    "State",
    "author",
    "installed_catalog",
    "load_catalog",
    "spec_hash",
]
