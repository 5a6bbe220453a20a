"""Catalog of training runtimes: versioned files, immutable once released, referenced by name or alias."""
