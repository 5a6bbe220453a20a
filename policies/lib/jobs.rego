package trainyard.lib.jobs

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Jobs in an object, of a Job, a CronJob, a JobSet, a runtime and the patches of a TrainJob: entries
# {path, at, metadata, spec} with the paths of metadata and spec.
all := array.concat(of_object, of_replicated_jobs)

default of_object := []

of_object := [{"path": "metadata", "at": "spec", "metadata": request.metadata, "spec": request.spec}] if {
	request.api_group == "batch"
	request.kind == "Job"
}

of_object := [entry] if {
	request.kind == "CronJob"
	template := request.map(request.spec, "jobTemplate")
	entry := {
		"path": "spec.jobTemplate.metadata", "at": "spec.jobTemplate.spec",
		"metadata": request.map(template, "metadata"), "spec": request.map(template, "spec"),
	}
}

of_replicated_jobs := [entry |
	some listed in pod_templates.replicated_jobs
	template := request.map(listed.job, "template")
	entry := {
		"path": sprintf("%s.template.metadata", [listed.path]), "at": sprintf("%s.template.spec", [listed.path]),
		"metadata": request.map(template, "metadata"), "spec": request.map(template, "spec"),
	}
]
