"""Console: pages about a platform in the browser, read-only."""
