"""Images without a registry: recipes, reproducible builds, loading and pushing."""
