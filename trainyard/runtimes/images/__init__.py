"""The images of a catalogue: their digests in images.lock, asked of registries."""
