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

violation contains {"path": path, "message": message} if {
	some path, count in nodes
	count > limit("pods")
	message := sprintf("%d nodes exceed the limit of %d", [count, limit("pods")])
}

violation contains {"path": path, "message": message} if {
	some path, text in processes
	regex.match(`^[0-9]{1,18}$`, text)
	to_number(text) > limit("processes")
	message := sprintf("%s processes of a node exceed the limit of %d", [text, limit("processes")])
}

violation contains {"path": "spec.minMember", "message": message} if {
	count := request.spec.minMember
	is_number(count)
	count > limit("pods")
	message := sprintf("a minimum of %d exceeds the limit of %d pods", [count, limit("pods")])
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
	message := sprintf("a minimum of %s exceeds the %v pods of the %s", [text, parallelism, subject])
}

pods := sum([copies |
	some pod in pod_templates.pods
	copies := product([count | some count in pod.counts; is_number(count)])
	copies > 0
])

pods_path := "spec.replicatedJobs" if {
	request.kind == "JobSet"
} else := "spec.jobTemplate.spec.parallelism" if {
	request.kind == "CronJob"
} else := "spec.parallelism" if {
	request.api_group == "batch"
} else := "spec.tasks" if {
	request.kind == "Job"
} else := "spec.template.spec.replicatedJobs" if {
	request.kind == "TrainingRuntime"
} else := "spec.replicas"

# Kind with the annotation: the replicatedJobs of a JobSet are Jobs.
subject := request.kind if {
	request.kind in request.replicated_kinds
} else := "Job"

# Numbers of nodes of a TrainJob and of a runtime, by path.
nodes[path] := count if {
	some path, place in {
		"spec.trainer.numNodes": ["trainer", "numNodes"],
		"spec.mlPolicy.numNodes": ["mlPolicy", "numNodes"],
		"spec.mlPolicy.torch.elasticPolicy.minNodes": ["mlPolicy", "torch", "elasticPolicy", "minNodes"],
		"spec.mlPolicy.torch.elasticPolicy.maxNodes": ["mlPolicy", "torch", "elasticPolicy", "maxNodes"],
	}
	count := object.get(request.spec, place, {})
	is_number(count)
}

# Processes of a node by path, as text: the field is a number or a word.
processes["spec.trainer.numProcPerNode"] := request.text(request.map(request.spec, "trainer"), "numProcPerNode")

processes[path] := request.text(framework, "numProcPerNode") if {
	some name, framework in request.map(request.spec, "mlPolicy")
	path := sprintf("spec.mlPolicy.%s.numProcPerNode", [name])
}

# Jobs: entries {path, at, metadata, spec} with the paths of metadata and spec.
jobs := array.flatten([
	of_object,
	[entry |
		some listed in pod_templates.replicated_jobs
		template := request.map(listed.job, "template")
		entry := {
			"path": sprintf("%s.template.metadata", [listed.path]), "at": sprintf("%s.template.spec", [listed.path]),
			"metadata": request.map(template, "metadata"), "spec": request.map(template, "spec"),
		}
	],
])

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

of_object := [{"path": "metadata", "at": "spec", "metadata": request.metadata, "spec": {"parallelism": replicas}}] if {
	request.kind in request.replicated_kinds
}

# A DaemonSet has as many pods as there are nodes.
replicas := limit("pods") if {
	request.kind == "DaemonSet"
} else := request.number(request.spec, "replicas", 1)
