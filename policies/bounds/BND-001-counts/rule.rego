package trainyard.rules.bnd_001

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

annotation := "scheduling.volcano.sh/group-min-member"

limit(name) := request.parameter("BND-001", name)

violation contains {"path": pods_path, "message": message} if {
	request.kind != "TrainJob"
	pods > limit("pods")
	message := sprintf("%d pods at once exceed the limit of %d", [pods, limit("pods")])
}

violation contains {"path": nodes_path, "message": message} if {
	nodes > limit("pods")
	message := sprintf("%d nodes exceed the limit of %d", [nodes, limit("pods")])
}

violation contains {"path": "spec.trainer.numProcPerNode", "message": message} if {
	request.kind == "TrainJob"
	text := request.text(request.map(request.spec, "trainer"), "numProcPerNode")
	regex.match(`^[0-9]{1,18}$`, text)
	to_number(text) > limit("processes")
	message := sprintf("%s processes of a node exceed the limit of %d", [text, limit("processes")])
}

violation contains {"path": sprintf("%s.completions", [job.at]), "message": message} if {
	some job in jobs
	count := request.number(job.spec, "completions", 0)
	count > limit("completions")
	message := sprintf("%v completions exceed the limit of %d", [count, limit("completions")])
}

violation contains {"path": sprintf("%s.annotations[%s]", [job.path, annotation]), "message": message} if {
	some job in jobs
	text := request.map(job.metadata, "annotations")[annotation]
	is_string(text)
	regex.match(`^[+]?[0-9]{1,10}$`, text)
	parallelism := request.number(job.spec, "parallelism", 1)
	parallelism > 0
	to_number(trim_left(text, "+")) > parallelism
	message := sprintf("a minimum of %s exceeds the %v pods of the Job", [text, parallelism])
}

pods := sum([copies |
	some pod in pod_templates.pods
	copies := product([count | some count in pod.counts; is_number(count)])
	copies > 0
])

pods_path := "spec.replicatedJobs" if {
	request.kind == "JobSet"
} else := "spec.parallelism" if {
	request.api_group == "batch"
} else := "spec.tasks" if {
	request.kind == "Job"
} else := "spec.template.spec.replicatedJobs"

nodes := request.number(request.map(request.spec, "trainer"), "numNodes", 0) if {
	request.kind == "TrainJob"
} else := request.number(request.map(request.spec, "mlPolicy"), "numNodes", 0) if {
	request.kind == "TrainingRuntime"
}

nodes_path := "spec.trainer.numNodes" if {
	request.kind == "TrainJob"
} else := "spec.mlPolicy.numNodes"

# Jobs: entries {path, at, metadata, spec} with the paths of metadata and spec.
jobs := array.concat(
	[{"path": "metadata", "at": "spec", "metadata": request.metadata, "spec": request.spec} | request.api_group == "batch"],
	[entry |
		some listed in pod_templates.replicated_jobs
		template := request.map(listed.job, "template")
		entry := {
			"path": sprintf("%s.template.metadata", [listed.path]), "at": sprintf("%s.template.spec", [listed.path]),
			"metadata": request.map(template, "metadata"), "spec": request.map(template, "spec"),
		}
	],
)
