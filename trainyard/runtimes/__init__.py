"""The catalog of training runtimes: versioned files, released once, referenced by name or by alias."""

from trainyard.runtimes.authoring import AuthoredVersion, Release, author
from trainyard.runtimes.catalogue import (
    ALIAS_ANNOTATION,
    RELEASED_ANNOTATION,
    Catalogue,
    Deprecation,
    Runtime,
    RuntimeVersion,
    State,
    spec_hash,
)
from trainyard.runtimes.installation import installed_catalogue
from trainyard.runtimes.loader import load_catalogue

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
