package trainyard.rules.rpl_001

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

violation contains {"path": sprintf("%s.replicas", [entry.path]), "message": message} if {
	some entry in replicated_jobs.all
	step := replicated_jobs.step(entry.job)
	step in ["trainer", "dataset-initializer", "model-initializer"]
	replicas := request.object_get(entry.job, "replicas", 1)
	replicas != 1
	message := sprintf("replicas must be 1 for %s, not %v", [step, replicas])
}
