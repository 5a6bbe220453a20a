"""The catalogue of training runtimes: versioned files, released once, reached by name or by alias."""

from trainyard.runtimes.catalogue import Catalogue, Deprecation, Runtime, RuntimeVersion, spec_hash
from trainyard.runtimes.loader import load_catalogue

__all__ = ["Catalogue", "Deprecation", "Runtime", "RuntimeVersion", "load_catalogue", "spec_hash"]
