"""How the platform is installed: one Pulumi component a file, made of native Kubernetes objects only."""
