package trainyard.lib.replicated_jobs

import data.trainyard.lib.places
import data.trainyard.lib.request
import rego.v1

label := "trainer.kubeflow.org/trainjob-ancestor-step"

# The replicatedJobs of a runtime or of a JobSet: entries {path, job}, patches of a TrainJob left out.
all contains entry if {
	some entry in places.replicated_jobs
	not startswith(entry.path, "spec.runtimePatches")
}

# In their order.
names := [request.object_get(job, "name", "") | some job in listed]

listed := array.concat(
	request.list(request.spec, "replicatedJobs"),
	request.list(request.map(request.map(request.spec, "template"), "spec"), "replicatedJobs"),
)

job_spec(job) := request.map(request.map(job, "template"), "spec")

pod_spec(job) := request.map(request.map(job_spec(job), "template"), "spec")

# The step of a TrainJob that a replicatedJob takes; empty for none.
step(job) := request.object_get(request.map(request.map(request.map(job, "template"), "metadata"), "labels"), label, "")
