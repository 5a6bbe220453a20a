package trainyard.rules.gng_003

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

job_set_specs := {"JobSet": request.spec}

job_set_spec := object.get(job_set_specs, request.kind, request.map(request.map(request.spec, "template"), "spec"))

in_place if request.map(job_set_spec, "failurePolicy").restartStrategy == "InPlaceRestart"

restart_policy(job) := request.object_get(replicated_jobs.pod_spec(job), "restartPolicy", "OnFailure")

violation contains {"path": path, "message": sprintf("Jobs require restartPolicy OnFailure or Never, not %v", [policy])} if {
	some entry in replicated_jobs.all
	policy := restart_policy(entry.job)
	not policy in ["OnFailure", "Never"]
	path := sprintf("%s.template.spec.template.spec.restartPolicy", [entry.path])
}

violation contains {"path": path, "message": sprintf("podFailurePolicy requires restartPolicy Never, not %v", [policy])} if {
	some entry in replicated_jobs.all
	is_object(replicated_jobs.job_spec(entry.job).podFailurePolicy)
	policy := restart_policy(entry.job)
	policy != "Never"
	path := sprintf("%s.template.spec.template.spec.restartPolicy", [entry.path])
}

violation contains {"path": sprintf("%s.template.spec.backoffLimit", [entry.path]), "message": message} if {
	some entry in other_than("backoffLimit", 2147483647)
	message := sprintf("InPlaceRestart requires 2147483647, not %v", [entry.value])
}

violation contains {"path": sprintf("%s.template.spec.podReplacementPolicy", [entry.path]), "message": message} if {
	some entry in other_than("podReplacementPolicy", "Failed")
	message := sprintf("InPlaceRestart requires Failed, not %v", [entry.value])
}

# Jobs that restart in place with another value of a field: entries {path, value}.
other_than(field, needed) := [{"path": entry.path, "value": value} |
	in_place
	some entry in replicated_jobs.all
	value := request.object_get(replicated_jobs.job_spec(entry.job), field, "the default")
	value != needed
]
