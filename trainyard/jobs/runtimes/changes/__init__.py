"""Effects of a runtime change: the difference for a job, and the affected jobs."""
