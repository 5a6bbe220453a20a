"""Generated pages and tables of the documentation."""
