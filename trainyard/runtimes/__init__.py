"""Catalog of training runtimes: versioned files, immutable once released, referenced by name or alias."""

from trainyard.runtimes.authoring import AuthoredVersion, Release, author
from trainyard.runtimes.catalog import (
    ALIAS_ANNOTATION,
    RELEASED_ANNOTATION,
    Catalog,
    Deprecation,
    Runtime,
    RuntimeVersion,
    State,
    spec_hash,
)
from trainyard.runtimes.catalog_loader import load_catalog
from trainyard.runtimes.installed_catalog import installed_catalog

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
