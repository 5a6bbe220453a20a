"""Admission policies: one rule model for the API server, the webhook and offline checks."""
