"""A burst of TrainJobs: Trainyard's controller, upstream's, and a client that only writes, in one run."""
