"""Components of the platform: one Pulumi component per file, made of native Kubernetes objects only."""
