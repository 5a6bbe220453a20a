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

violation contains {"path": path, "message": "podFailurePolicy requires restartPolicy Never"} if {
	some entry in replicated_jobs.all
	is_object(replicated_jobs.job_spec(entry.job).podFailurePolicy)
	restart_policy(entry.job) != "Never"
	path := sprintf("%s.template.spec.template.spec.restartPolicy", [entry.path])
}

violation contains {"path": sprintf("%s.template.spec.%s", [entry.path, field]), "message": message} if {
	in_place
	some entry in replicated_jobs.all
	some field, needed in {"backoffLimit": 2147483647, "podReplacementPolicy": "Failed"}
	job := replicated_jobs.job_spec(entry.job)
	not job[field] == needed
	message := sprintf("InPlaceRestart requires %v", [needed])
}
