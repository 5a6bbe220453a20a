"""Hooks that prepare live objects before Pulumi changes them."""
