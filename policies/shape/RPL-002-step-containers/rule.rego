package trainyard.rules.rpl_002

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

required := {"trainer": "node", "dataset-initializer": "dataset-initializer", "model-initializer": "model-initializer"}

violation contains {"path": path, "message": sprintf("container %s is missing", [name])} if {
	some entry in replicated_jobs.all
	name := required[replicated_jobs.step(entry.job)]
	names := [container.name | some container in request.list(replicated_jobs.pod_spec(entry.job), "containers")]
	not name in names
	path := sprintf("%s.template.spec.template.spec.containers", [entry.path])
}
