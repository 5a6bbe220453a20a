"""Check manifests before a cluster sees them: every object is reviewed as if it were created."""
