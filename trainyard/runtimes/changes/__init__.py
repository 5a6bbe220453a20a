"""What a change of a runtime means: for a job, and for which jobs."""
