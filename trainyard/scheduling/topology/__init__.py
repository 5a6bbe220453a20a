"""The network fabric: checks, and its compilation to HyperNodes and node labels."""
