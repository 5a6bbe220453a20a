"""The catalog of training runtimes: versioned files, released once, referenced by name or by alias."""

from trainyard.runtimes.authoring import AuthoredVersion, Release, author
from trainyard.runtimes.catalog import (
    ALIAS_ANNOTATION,
    RELEASED_ANNOTATION,
    Catalogue,
    Deprecation,
    Runtime,
    RuntimeVersion,
    State,
    spec_hash,
)
from trainyard.runtimes.catalog_loader import load_catalogue
from trainyard.runtimes.installed_catalog import installed_catalogue

__all__ = [
    "ALIAS_ANNOTATION",
    "RELEASED_ANNOTATION",
    "AuthoredVersion",
    "Catalogue",
    "Deprecation",
    "Release",
    "Runtime",
    "RuntimeVersion",
    "State",
    "author",
    "installed_catalogue",
    "load_catalogue",
    "spec_hash",
]
