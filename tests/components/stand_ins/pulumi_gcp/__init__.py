"""Stand-in for the package ``pulumi_gcp``, which has 136 MB: the part that the examples use, with its types."""
