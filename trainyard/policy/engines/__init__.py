"""Engines that evaluate the rules: the API server (CEL) and OPA (Rego)."""
