"""Manifests: YAML with the semantics of Kubernetes, with file and line of each object."""
