"""Life cycle of a runtime: release, alias, deprecation, retirement, and the allowed transitions."""
