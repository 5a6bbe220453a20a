"""Convert legacy jobs to TrainJobs: training operator, MPI operator, KubeRay, Spark operator, Volcano. No I/O."""
