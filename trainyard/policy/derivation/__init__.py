"""Derivation of the prefilter: the texts without which a rule has no violation, from the compiled Rego."""
