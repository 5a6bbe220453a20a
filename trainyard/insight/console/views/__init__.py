"""View models of the pages, computed from the recorded state of a cluster; pure."""
