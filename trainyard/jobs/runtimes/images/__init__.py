"""Images of a catalog: digests in images.lock, resolved from registries."""
