package trainyard.lib.replicated_jobs

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

label := "trainer.kubeflow.org/trainjob-ancestor-step"

# The replicatedJobs of a runtime or of a JobSet: entries {path, job}, without patches of a TrainJob.
all := array.concat(pod_templates.of_job_set, pod_templates.of_runtime)

# In order.
names := [request.text(entry.job, "name") | some entry in all]

job_spec(job) := request.map(request.map(job, "template"), "spec")

pod_spec(job) := request.map(request.map(job_spec(job), "template"), "spec")

# The TrainJob step of a replicatedJob; undefined if unset.
step(job) := request.map(request.map(request.map(job, "template"), "metadata"), "labels")[label]
