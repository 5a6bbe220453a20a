"""Pulumi resource hooks that run before objects are created or updated."""
