package trainyard.rules.gng_004

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import data.trainyard.lib.task_dependencies
import rego.v1

violation contains {"path": sprintf("spec.tasks[%d].dependsOn", [i]), "message": message} if {
	some i in task_dependencies.endless
	message := "dependsOn is circular, names an unknown task, or forms a chain of more than eight tasks"
}

least := request.spec.minAvailable if {
	request.spec.minAvailable > 0
} else := sum([request.number(task, "minAvailable", request.number(task, "replicas", 0)) | some task in task_dependencies.tasks])

startable := sum([request.number(task, "replicas", 0) | some task in task_dependencies.tasks; count(task_dependencies.needs(task)) == 0])

violation contains {"path": "spec.minAvailable", "message": message} if {
	count(task_dependencies.endless) == 0
	some task in task_dependencies.tasks
	count(task_dependencies.needs(task)) > 0
	least > startable
	message := sprintf("the gang requires %d pods, but only %d are created before it starts", [least, startable])
}

violation contains {"path": sprintf("%s.dependsOn[%d].name", [entry.path, k]), "message": message} if {
	some entry in replicated_jobs.all
	some k, need in request.list(entry.job, "dependsOn")
	name := request.text(need, "name")
	not name in earlier(request.text(entry.job, "name"))
	message := sprintf("no earlier replicatedJob is named \"%v\"", [name])
}

earlier(name) := {other |
	some k, this in replicated_jobs.names
	this == name
	some i, other in replicated_jobs.names
	i < k
}
