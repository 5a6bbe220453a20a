"""Jobs and their objects: rendering, frameworks, gangs, the runtime catalog, and conversion of legacy jobs."""
