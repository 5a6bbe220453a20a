"""Generators of reference pages and tables of the documentation."""
