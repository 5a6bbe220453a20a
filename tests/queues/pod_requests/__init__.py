"""Requests of generated pods, recorded from the functions of Kubernetes and of Volcano."""
