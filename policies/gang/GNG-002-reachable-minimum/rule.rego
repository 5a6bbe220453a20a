package trainyard.rules.gng_002

import data.trainyard.lib.request
import rego.v1

tasks := request.list(request.spec, "tasks")

pods := sum([request.number(task, "replicas", 0) | some task in tasks])

violation contains {"path": "spec.minAvailable", "message": message} if {
	request.spec.minAvailable > pods
	message := sprintf("minAvailable exceeds the %d pods of all tasks", [pods])
}

violation contains {"path": sprintf("spec.tasks[%d].minAvailable", [i]), "message": "minAvailable exceeds the replicas of the task"} if {
	some i, task in tasks
	task.minAvailable > request.object_get(task, "replicas", 0)
}

violation contains {"path": "spec.minMember", "message": "minMember must be at least 1"} if {
	request.spec.minMember != null
	request.spec.minMember < 1
}

violation contains {"path": sprintf("spec.minTaskMember[%s]", [name]), "message": "the number of pods must not be negative"} if {
	some name, least in request.map(request.spec, "minTaskMember")
	least != null
	least < 0
}
