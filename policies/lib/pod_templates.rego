package trainyard.lib.pod_templates

import data.trainyard.lib.listed_controllers
import data.trainyard.lib.request
import rego.v1

# Locations of Job templates, pod templates and metadata in the platform's kinds: entries {path, ...} with the path as
# in manifests. The first segment of a path is empty for the object itself. They are lists, because comparing complete
# templates, as sets do, is slower than most rules.

# Lists of replicatedJobs: of a JobSet, a runtime, and each patch of a TrainJob.
replicated_jobs := array.flatten([of_job_set, of_runtime, of_patches])

of_job_set := [{"path": sprintf("spec.replicatedJobs[%d]", [i]), "job": job} |
	is_array(request.spec.replicatedJobs)
	some i, job in request.spec.replicatedJobs
	is_object(job)
	not listed_controllers.listed
]

of_runtime := [{"path": sprintf("spec.template.spec.replicatedJobs[%d]", [i]), "job": job} |
	is_array(request.spec.template.spec.replicatedJobs)
	some i, job in request.spec.template.spec.replicatedJobs
	is_object(job)
	not listed_controllers.listed
]

of_patches := [{"path": path, "job": job} |
	some i, patch in patches
	is_array(patch.trainingRuntimeSpec.template.spec.replicatedJobs)
	some k, job in patch.trainingRuntimeSpec.template.spec.replicatedJobs
	is_object(job)
	path := sprintf("spec.runtimePatches[%d].trainingRuntimeSpec.template.spec.replicatedJobs[%d]", [i, k])
	not listed_controllers.listed
]

patches := request.list(request.spec, "runtimePatches")

# Pod templates and their patches: entries {specPath, spec}; nested ones also have {path, metadata}, and templates of
# pods have {counts}, whose product is the number of concurrent pods; a value that is not a number counts as nothing.
pods := array.flatten([of_pod_or_job, of_tasks, of_replicated_jobs, of_overrides, of_spec_overrides, listed_controllers.pods])

default of_pod_or_job := []

of_pod_or_job := [{"specPath": "spec", "spec": request.spec, "counts": []}] if request.kind == "Pod"

of_pod_or_job := [entry] if {
	request.api_group == "batch"
	request.kind == "Job"
	entry := {
		"specPath": "spec.template.spec",
		"spec": object.get(request.spec, ["template", "spec"], {}),
		"counts": [object.get(request.spec, "parallelism", 1)],
	}
}

of_pod_or_job := [entry] if {
	request.kind in request.replicated_kinds
	not contains(request.api_group, ".")
	not request.continued
	entry := {
		"specPath": "spec.template.spec",
		"spec": object.get(request.spec, ["template", "spec"], {}),
		"counts": [object.get(request.spec, "replicas", 1)],
	}
}

of_pod_or_job := [entry] if {
	request.api_group == "batch"
	request.kind == "CronJob"
	not request.continued
	path := "spec.jobTemplate.spec.template"
	entry := {
		"path": path, "specPath": sprintf("%s.spec", [path]),
		"metadata": object.get(request.spec, ["jobTemplate", "spec", "template", "metadata"], {}),
		"spec": object.get(request.spec, ["jobTemplate", "spec", "template", "spec"], {}),
		"counts": [object.get(request.spec, ["jobTemplate", "spec", "parallelism"], 1)],
	}
}

of_tasks := [entry |
	is_array(request.spec.tasks)
	some i, task in request.spec.tasks
	is_object(task)
	path := sprintf("spec.tasks[%d].template", [i])
	entry := {
		"path": path, "specPath": sprintf("%s.spec", [path]),
		"metadata": object.get(task, ["template", "metadata"], {}),
		"spec": object.get(task, ["template", "spec"], {}),
		"counts": [object.get(task, "replicas", 1)],
	}
	not listed_controllers.listed
]

of_replicated_jobs := [entry |
	some listed in replicated_jobs
	job := listed.job
	path := sprintf("%s.template.spec.template", [listed.path])
	entry := {
		"path": path, "specPath": sprintf("%s.spec", [path]),
		"metadata": object.get(job, ["template", "spec", "template", "metadata"], {}),
		"spec": object.get(job, ["template", "spec", "template", "spec"], {}),
		"counts": [object.get(job, "replicas", 1), object.get(job, ["template", "spec", "parallelism"], 1)],
	}
]

of_overrides := [entry |
	is_array(request.spec.podTemplateOverrides)
	some i, override in request.spec.podTemplateOverrides
	is_object(override)
	path := sprintf("spec.podTemplateOverrides[%d]", [i])
	entry := {
		"path": path, "specPath": sprintf("%s.spec", [path]),
		"metadata": object.get(override, "metadata", {}),
		"spec": object.get(override, "spec", {}),
	}
	not listed_controllers.listed
]

of_spec_overrides := [{"specPath": path, "spec": override} |
	is_array(request.spec.podSpecOverrides)
	some i, override in request.spec.podSpecOverrides
	path := sprintf("spec.podSpecOverrides[%d]", [i])
	not listed_controllers.listed
]

# Metadata at every depth: entries {path, metadata}.
metadatas := array.flatten([of_object, of_patched_templates, of_jobs, of_pods])

of_object := array.flatten([
	{"path": "metadata", "metadata": request.metadata},
	[{"path": "spec", "metadata": request.spec} | request.kind == "TrainJob"],
	[{"path": "spec.template.metadata", "metadata": metadata} | metadata := request.spec.template.metadata],
	[{"path": "spec.jobTemplate.metadata", "metadata": metadata} | metadata := request.spec.jobTemplate.metadata],
])

of_patched_templates := [{"path": path, "metadata": metadata} |
	some i, patch in patches
	metadata := patch.trainingRuntimeSpec.template.metadata
	path := sprintf("spec.runtimePatches[%d].trainingRuntimeSpec.template.metadata", [i])
	not listed_controllers.listed
]

of_jobs := [{"path": sprintf("%s.template.metadata", [entry.path]), "metadata": metadata} |
	some entry in replicated_jobs
	metadata := entry.job.template.metadata
]

of_pods := [{"path": sprintf("%s.metadata", [pod.path]), "metadata": pod.metadata} |
	some pod in pods
]

# Metadata of pod templates: entries {path, metadata}.
template_metadatas := array.concat(of_template, of_pods)

of_template := [{"path": "spec.template.metadata", "metadata": request.spec.template.metadata} |
	request.api_group in ["batch", "apps", ""]
]

# Containers of every pod: entries {path, field, container, pod}.
containers := [{"path": path, "field": field, "container": container, "pod": pod} |
	some pod in pods
	some field in ["containers", "initContainers", "ephemeralContainers"]
	is_array(pod.spec[field])
	some i, container in pod.spec[field]
	path := sprintf("%s.%s[%d]", [pod.specPath, field, i])
]

# Ephemeral containers that an update adds.
joining := [each |
	some each in request.list(request.spec, "ephemeralContainers")
	not each in request.list(request.old_spec, "ephemeralContainers")
]

# Existing security contexts of pods and containers: entries {path, context}.
security_contexts := array.concat(
	[{"path": sprintf("%s.securityContext", [pod.specPath]), "context": pod.spec.securityContext} | some pod in pods],
	[{"path": sprintf("%s.securityContext", [entry.path]), "context": entry.container.securityContext} |
		some entry in containers
	],
)
