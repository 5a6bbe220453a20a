package trainyard.lib.counts

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Numbers by which an object decides how many pods and processes there are.

concurrent_pods := added if {
	request.kind == "Scale"
} else := sum([copies(pod) | some pod in pod_templates.pods])

# The number of concurrent pods of a template.
copies(pod) := max([product([count | some count in pod.counts; is_number(count)]), 0])

# Replicas of a Scale, where it adds some.
added := replicas if {
	replicas := request.number(request.spec, "replicas", 0)
	replicas > request.number(request.old_spec, "replicas", 0)
}

# Field that decides it.
concurrent_path := "spec.replicatedJobs" if {
	request.kind == "JobSet"
} else := "spec.jobTemplate.spec.parallelism" if {
	request.kind == "CronJob"
} else := "spec.parallelism" if {
	request.api_group == "batch"
} else := "spec.tasks" if {
	request.kind == "Job"
} else := "spec.template.spec.replicatedJobs" if {
	request.kind == "TrainingRuntime"
} else := "spec" if {
	contains(request.api_group, ".")
} else := "spec.replicas"

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

# Processes of a node by path, as text; the field is a number or a word.
processes[path] := text if {
	some path, text in process_fields
	regex.match(`^[0-9]{1,18}$`, text)
}

process_fields["spec.trainer.numProcPerNode"] := request.text(request.map(request.spec, "trainer"), "numProcPerNode")

process_fields[path] := request.text(framework, "numProcPerNode") if {
	some name, framework in request.map(request.spec, "mlPolicy")
	path := sprintf("spec.mlPolicy.%s.numProcPerNode", [name])
}
