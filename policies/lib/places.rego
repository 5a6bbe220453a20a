package trainyard.lib.places

import data.trainyard.lib.request
import rego.v1

# Where the kinds of this platform hold Job templates, pod templates and metadata: entries {path, ...} with the field
# path people write. The first step of a path is empty for the object itself.

# Lists of replicatedJobs: of a JobSet, of a runtime, of each patch of a TrainJob.
replicated_jobs contains {"path": sprintf("spec.replicatedJobs[%d]", [i]), "job": job} if {
	jobs := request.spec.replicatedJobs
	is_array(jobs)
	some i, job in jobs
}

replicated_jobs contains {"path": sprintf("spec.template.spec.replicatedJobs[%d]", [i]), "job": job} if {
	jobs := request.spec.template.spec.replicatedJobs
	is_array(jobs)
	some i, job in jobs
}

replicated_jobs contains {"path": path, "job": job} if {
	some i, patch in patches
	jobs := patch.trainingRuntimeSpec.template.spec.replicatedJobs
	is_array(jobs)
	some k, job in jobs
	path := sprintf("spec.runtimePatches[%d].trainingRuntimeSpec.template.spec.replicatedJobs[%d]", [i, k])
}

patches := request.list(request.spec, "runtimePatches")

# Pod templates, and what changes pod templates: entries {path, metadata, spec}; specPath is where spec lies, and copies
# the number of pods made of it at a time.
pods contains {"path": "", "specPath": "spec", "metadata": request.metadata, "spec": request.spec, "copies": 1} if {
	request.kind == "Pod"
	request.api_group == ""
}

pods contains template_entry("spec.template", template, request.copies(request.spec, "parallelism")) if {
	request.kind == "Job"
	request.api_group == "batch"
	template := request.map(request.spec, "template")
}

pods contains template_entry(sprintf("spec.tasks[%d].template", [i]), template, request.copies(task, "replicas")) if {
	tasks := request.spec.tasks
	is_array(tasks)
	some i, task in tasks
	template := request.map(task, "template")
}

pods contains template_entry(sprintf("%s.template.spec.template", [entry.path]), template, copies) if {
	some entry in replicated_jobs
	job := request.map(request.map(entry.job, "template"), "spec")
	template := request.map(job, "template")
	copies := request.copies(entry.job, "replicas") * request.copies(job, "parallelism")
}

pods contains template_entry(sprintf("spec.podTemplateOverrides[%d]", [i]), override, 0) if {
	overrides := request.spec.podTemplateOverrides
	is_array(overrides)
	some i, override in overrides
}

pods contains {"path": path, "specPath": path, "metadata": {}, "spec": override, "copies": 0} if {
	overrides := request.spec.podSpecOverrides
	is_array(overrides)
	some i, override in overrides
	path := sprintf("spec.podSpecOverrides[%d]", [i])
}

template_entry(path, template, copies) := {
	"path": path,
	"specPath": sprintf("%s.spec", [path]),
	"metadata": request.map(template, "metadata"),
	"spec": request.map(template, "spec"),
	"copies": copies,
}

# Metadata at every depth: entries {path, metadata}.
metadatas contains {"path": "metadata", "metadata": request.metadata}

metadatas contains {"path": "spec", "metadata": request.spec} if request.kind == "TrainJob"

metadatas contains {"path": "spec.template.metadata", "metadata": request.map(template, "metadata")} if {
	template := request.map(request.spec, "template")
}

metadatas contains {"path": path, "metadata": request.map(template, "metadata")} if {
	some i, patch in request.list(request.spec, "runtimePatches")
	template := request.map(request.map(patch, "trainingRuntimeSpec"), "template")
	path := sprintf("spec.runtimePatches[%d].trainingRuntimeSpec.template.metadata", [i])
}

metadatas contains {"path": sprintf("%s.template.metadata", [entry.path]), "metadata": metadata} if {
	some entry in replicated_jobs
	metadata := request.map(request.map(entry.job, "template"), "metadata")
}

metadatas contains {"path": sprintf("%s.metadata", [pod.path]), "metadata": pod.metadata} if {
	some pod in pods
	pod.path != ""
}

# Containers of every pod: entries {path, field, container, pod}.
containers contains {"path": path, "field": field, "container": container, "pod": pod} if {
	some pod in pods
	some field in ["containers", "initContainers", "ephemeralContainers"]
	listed := pod.spec[field]
	is_array(listed)
	some i, container in listed
	path := sprintf("%s.%s[%d]", [pod.specPath, field, i])
}

# Security contexts of pods and of containers: entries {path, context}.
security_contexts contains {"path": path, "context": request.map(pod.spec, "securityContext")} if {
	some pod in pods
	path := sprintf("%s.securityContext", [pod.specPath])
}

security_contexts contains {"path": path, "context": request.map(entry.container, "securityContext")} if {
	some entry in containers
	path := sprintf("%s.securityContext", [entry.path])
}
