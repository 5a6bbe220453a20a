"""Components of the platform: one Pulumi component resource per file, composed of native Kubernetes objects."""
