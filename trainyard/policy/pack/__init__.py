"""Pulumi policy pack: reviews every Kubernetes object of a stack before it is created."""
