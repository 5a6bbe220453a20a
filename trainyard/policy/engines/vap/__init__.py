"""The API server: ValidatingAdmissionPolicies, and the facts that they read."""
