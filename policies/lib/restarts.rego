package trainyard.lib.restarts

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

# Numbers that limit restarts and run time: entries {path, number, limit}, where limit is backoffs, restarts, seconds or
# (if another field limits the restarts) nothing.
numbers contains entry if {
	some entry in fields
	entry.number != null
}

fields contains {"path": sprintf("%s.%s", [job.path, field]), "number": job.spec[field], "limit": limit} if {
	some job in jobs
	some field, limit in {"backoffLimitPerIndex": "backoffs", "activeDeadlineSeconds": "seconds"}
}

fields contains {"path": sprintf("%s.backoffLimit", [job.path]), "number": job.spec.backoffLimit, "limit": limit} if {
	some job in jobs
	limit := backoff_limit(job.spec)
}

fields contains {"path": path, "number": failure_policy.maxRestarts, "limit": "restarts"} if {
	path := sprintf("%s.failurePolicy.maxRestarts", [job_set.path])
}

fields contains {"path": path, "number": policy.maxRestarts, "limit": "restarts"} if {
	policy := request.spec.mlPolicy.torch.elasticPolicy
	path := "spec.mlPolicy.torch.elasticPolicy.maxRestarts"
}

fields contains {"path": "spec.maxRetry", "number": request.spec.maxRetry, "limit": "restarts"}

fields contains {"path": sprintf("spec.tasks[%d].maxRetry", [i]), "number": task.maxRetry, "limit": "restarts"} if {
	some i, task in request.list(request.spec, "tasks")
}

# The API server sets backoffLimit to the largest number where backoffLimitPerIndex limits the restarts.
backoff_limit(spec) := "nothing" if {
	failure_policy.restartStrategy == "InPlaceRestart"
} else := "nothing" if {
	is_number(spec.backoffLimitPerIndex)
} else := "backoffs"

# Failure rules that ignore maxRestarts, by path.
unlimited contains sprintf("%s.failurePolicy.rules[%d].action", [job_set.path, i]) if {
	some i, rule in request.list(failure_policy, "rules")
	contains(request.text(rule, "action"), "AndIgnoreMaxRestarts")
}

# Failure rules of Jobs that replace a failed pod without counting it: entries {path, job, exitCodes, conditions}.
ignored contains {"path": path, "job": job.path, "exitCodes": exit_codes, "conditions": conditions} if {
	some job in jobs
	some i, rule in request.list(request.map(job.spec, "podFailurePolicy"), "rules")
	request.text(rule, "action") == "Ignore"
	exit_codes := request.map(rule, "onExitCodes")
	conditions := request.list(rule, "onPodConditions")
	path := sprintf("%s.podFailurePolicy.rules[%d]", [job.path, i])
}

job_set := {"path": "spec", "spec": request.spec} if {
	request.kind == "JobSet"
} else := {"path": "spec.template.spec", "spec": request.map(request.map(request.spec, "template"), "spec")}

failure_policy := request.map(job_set.spec, "failurePolicy")

# Fields of a Job, and the deadline of a TrainJob; other kinds do not have them.
jobs contains {"path": "spec", "spec": request.spec}

jobs contains {"path": sprintf("%s.template.spec", [entry.path]), "spec": replicated_jobs.job_spec(entry.job)} if {
	some entry in replicated_jobs.all
}
