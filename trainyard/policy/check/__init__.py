"""Checking manifests before a cluster sees them: every object judged as the API server would judge its creation."""
