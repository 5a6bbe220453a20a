package trainyard.rules.gng_001

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

policy := request.map(request.spec, "podGroupPolicy")

violation contains {"path": path, "message": sprintf("schedulerName \"%v\" is not the gang's scheduler", [scheduler])} if {
	some gang, settings in policy
	is_object(settings)
	some entry in replicated_jobs.all
	scheduler := request.object_get(replicated_jobs.pod_spec(entry.job), "schedulerName", null)
	scheduler != null
	not scheduler in request.parameter("GNG-001", gang)
	path := sprintf("%s.template.spec.template.spec.schedulerName", [entry.path])
}
