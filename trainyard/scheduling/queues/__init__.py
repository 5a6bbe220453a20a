"""The tenant queue tree: checked against the rules of the Volcano version, and compiled to Queue objects."""
