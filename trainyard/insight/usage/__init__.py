"""Usage of devices over time, by tenant, queue, job and runtime: levels, their record, and sums over a span."""
