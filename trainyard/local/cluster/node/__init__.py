"""Nodes with kubelets on this machine: each in its own network, mount, process and host name namespaces and cgroup."""
