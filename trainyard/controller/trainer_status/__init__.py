"""Status server: training code reports its progress, stored in the status of TrainJobs."""
