"""Check of manifests before deployment: every object is reviewed as if it were created."""
