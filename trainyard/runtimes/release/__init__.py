"""The life of a runtime: release, alias, deprecation, retirement, and which changes of it are legal."""
