package trainyard.rules.rst_001

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

parameter(name) := request.parameter("RST-001", name)

job_set := {"path": "spec", "spec": request.spec} if {
	request.kind == "JobSet"
} else := {"path": "spec.template.spec", "spec": request.map(request.map(request.spec, "template"), "spec")}

failure_policy := request.map(job_set.spec, "failurePolicy")

# Fields of a Job, and the deadline of a TrainJob; other kinds do not have them.
jobs contains {"path": "spec", "spec": request.spec}

jobs contains {"path": sprintf("%s.template.spec", [entry.path]), "spec": replicated_jobs.job_spec(entry.job)} if {
	some entry in replicated_jobs.all
}

# Entries {path, number, ceiling}.
numbers contains {"path": path, "number": number, "ceiling": ceiling} if {
	some job in jobs
	some field, ceiling in ceilings
	number := job.spec[field]
	path := sprintf("%s.%s", [job.path, field])
}

ceilings := {
	"backoffLimit": backoff_limit,
	"backoffLimitPerIndex": parameter("maxBackoffLimit"),
	"activeDeadlineSeconds": parameter("maxDeadlineSeconds"),
}

numbers contains {"path": path, "number": number, "ceiling": parameter("maxRestarts")} if {
	number := failure_policy.maxRestarts
	path := sprintf("%s.failurePolicy.maxRestarts", [job_set.path])
}

numbers contains {"path": path, "number": policy.maxRestarts, "ceiling": parameter("maxRestarts")} if {
	policy := request.spec.mlPolicy.torch.elasticPolicy
	path := "spec.mlPolicy.torch.elasticPolicy.maxRestarts"
}

numbers contains {"path": "spec.maxRetry", "number": number, "ceiling": parameter("maxRestarts")} if {
	number := request.spec.maxRetry
}

numbers contains {"path": path, "number": task.maxRetry, "ceiling": parameter("maxRestarts")} if {
	some i, task in request.list(request.spec, "tasks")
	path := sprintf("spec.tasks[%d].maxRetry", [i])
}

backoff_limit := 2147483647 if {
	failure_policy.restartStrategy == "InPlaceRestart"
} else := parameter("maxBackoffLimit")

violation contains {"path": entry.path, "message": message} if {
	some entry in numbers
	entry.number != null
	not bounded(entry)
	message := sprintf("out of bounds: %v (at most %d)", [entry.number, entry.ceiling])
}

# Values that are not numbers are unbounded: Rego sorts them before or after all numbers.
bounded(entry) if {
	entry.number >= 0
	entry.number <= entry.ceiling
}

violation contains {"path": path, "message": "restarts that ignore maxRestarts are unlimited"} if {
	some i, rule in request.list(failure_policy, "rules")
	contains(request.text(rule, "action"), "AndIgnoreMaxRestarts")
	path := sprintf("%s.failurePolicy.rules[%d].action", [job_set.path, i])
}

violation contains {"path": "spec.activeDeadlineSeconds", "message": "activeDeadlineSeconds is unset"} if {
	parameter("deadlineRequired")
	request.kind == "TrainJob"
	request.object_get(request.spec, "activeDeadlineSeconds", null) == null
}
