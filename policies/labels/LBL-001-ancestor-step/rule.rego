package trainyard.rules.lbl_001

import data.trainyard.lib.request
import rego.v1

label := "trainer.kubeflow.org/trainjob-ancestor-step"

steps := ["trainer", "dataset-initializer", "model-initializer"]

jobs := request.list(request.map(request.map(request.spec, "template"), "spec"), "replicatedJobs")

job_labels(job) := request.map(request.map(request.map(job, "template"), "metadata"), "labels")

pod_labels(job) := request.map(request.map(request.map(request.map(request.map(job, "template"), "spec"), "template"), "metadata"), "labels")

# A null label is unset: the API server drops it.
step_of(labels) := labels[label] if labels[label] != null

job_path(i) := sprintf("spec.template.spec.replicatedJobs[%d].template.metadata.labels[%s]", [i, label])

violation contains {"path": job_path(i), "message": sprintf("ancestor step \"%v\" is not supported", [step])} if {
	some i, job in jobs
	step := step_of(job_labels(job))
	not step in steps
}

violation contains {"path": path, "message": "the label is ignored on a pod template"} if {
	some i, job in jobs
	step := step_of(pod_labels(job))
	labels := job_labels(job)
	not labels[label] == step
	path := sprintf("spec.template.spec.replicatedJobs[%d].template.spec.template.metadata.labels[%s]", [i, label])
}

violation contains {"path": job_path(i), "message": sprintf("an earlier replicatedJob already has the step \"%v\"", [step])} if {
	some i, job in jobs
	step := job_labels(job)[label]
	step in steps
	some k, other in jobs
	k < i
	job_labels(other)[label] == step
}

violation contains {"path": path, "message": "a patch must not set the ancestor step of a replicatedJob"} if {
	some i, patch in request.list(request.spec, "runtimePatches")
	template := request.map(request.map(patch, "trainingRuntimeSpec"), "template")
	some k, job in request.list(request.map(template, "spec"), "replicatedJobs")
	labelled(job)
	path := sprintf("spec.runtimePatches[%d].trainingRuntimeSpec.template.spec.replicatedJobs[%d]", [i, k])
}

labelled(job) if label in object.keys(job_labels(job))

labelled(job) if label in object.keys(pod_labels(job))
