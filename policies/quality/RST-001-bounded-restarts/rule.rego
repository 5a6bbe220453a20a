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

numbers contains {"path": sprintf("%s.backoffLimit", [job.path]), "number": number, "ceiling": backoff_limit(job.spec)} if {
	some job in jobs
	number := job.spec.backoffLimit
}

# The API server sets backoffLimit to the largest number where backoffLimitPerIndex limits the restarts.
backoff_limit(spec) := 2147483647 if {
	failure_policy.restartStrategy == "InPlaceRestart"
} else := 2147483647 if {
	is_number(spec.backoffLimitPerIndex)
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

# Entries {path, job, rule} of the failure rules that replace a failed pod without counting it.
ignoring contains {"path": path, "job": job.path, "rule": rule} if {
	some job in jobs
	some i, rule in request.list(request.map(job.spec, "podFailurePolicy"), "rules")
	request.text(rule, "action") == "Ignore"
	path := sprintf("%s.podFailurePolicy.rules[%d]", [job.path, i])
}

exit_codes(rule) := request.map(rule, "onExitCodes")

violation contains {"path": sprintf("%s.onExitCodes.operator", [entry.path]), "message": message} if {
	some entry in ignoring
	exit_codes(entry.rule).operator == "NotIn"
	codes := concat(" ", request.texts(exit_codes(entry.rule), "values"))
	message := sprintf("action Ignore restarts pods without limit for all exit codes but %s", [codes])
}

violation contains {"path": sprintf("%s.podFailurePolicy.rules", [job]), "message": message} if {
	some job in {entry.job | some entry in ignoring}
	total := sum([count(request.list(exit_codes(entry.rule), "values")) | some entry in ignoring; entry.job == job])
	total > parameter("maxIgnoredExitCodes")
	message := sprintf("action Ignore for %d exit codes; at most %d are allowed", [total, parameter("maxIgnoredExitCodes")])
}

violation contains {"path": sprintf("%s.onPodConditions", [entry.path]), "message": message} if {
	some entry in ignoring
	types := [type |
		some condition in request.list(entry.rule, "onPodConditions")
		type := request.text(condition, "type")
		not type in parameter("ignoredConditions")
	]
	count(types) > 0
	allowed := concat(" ", parameter("ignoredConditions"))
	message := sprintf("action Ignore for condition %s; only %s is allowed", [concat(" ", types), allowed])
}

violation contains {"path": "spec.activeDeadlineSeconds", "message": "activeDeadlineSeconds is unset"} if {
	parameter("deadlineRequired")
	request.kind == "TrainJob"
	request.object_get(request.spec, "activeDeadlineSeconds", null) == null
}
