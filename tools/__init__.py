"""Programs for maintainers, which are not installed: generators of reference pages."""
