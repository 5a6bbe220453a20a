"""Images of a catalog: their digests in images.lock, resolved by registries."""
