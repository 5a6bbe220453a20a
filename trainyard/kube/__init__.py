"""Asynchronous Kubernetes client, informers, work queue and leader election; independent of training."""
