"""State of a cluster, read once: from the API server, from a set of lists, or from a file."""
