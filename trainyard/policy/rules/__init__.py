"""Rules: the model of rule.yaml, its parameters, and the catalog of rule folders."""
