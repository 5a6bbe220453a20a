"""The controller: reconciles TrainJobs, serves their admission webhooks, and keeps the platform's certificates."""
