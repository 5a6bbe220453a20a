"""Manifests: YAML read as Kubernetes does, with file and line."""
