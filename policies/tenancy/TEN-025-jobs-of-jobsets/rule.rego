package trainyard.rules.ten_025

import data.trainyard.lib.owners
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "spec", "message": message} if {
	request.operation == "UPDATE"
	not users.is_platform("TEN-025")
	job_sets := [owner |
		some owner in owners.controllers(request.map(request.old_object, "metadata"))
		owner.kind == "JobSet"
	]
	count(job_sets) > 0
	unsuspended(request.object) != unsuspended(request.old_object)
	message := sprintf("user \"%v\" cannot change a Job of JobSet \"%v\"", [request.user.name, job_sets[0].name])
}

unsuspended(job) := object.remove(request.map(job, "spec"), ["suspend"])
