package trainyard.rules.gng_002

import data.trainyard.lib.request
import rego.v1

tasks := request.list(request.spec, "tasks")

pods := sum([request.number(task, "replicas", 0) | some task in tasks])

violation contains {"path": "spec.minAvailable", "message": message} if {
	request.spec.minAvailable > pods
	message := sprintf("minAvailable %v exceeds the %d pods of all tasks", [request.spec.minAvailable, pods])
}

violation contains {"path": sprintf("spec.tasks[%d].minAvailable", [i]), "message": message} if {
	some i, task in tasks
	replicas := request.object_get(task, "replicas", 0)
	task.minAvailable > replicas
	message := sprintf("minAvailable %v exceeds the %v replicas of the task", [task.minAvailable, replicas])
}

violation contains {"path": "spec.minMember", "message": sprintf("minMember must be at least 1, not %v", [least])} if {
	least := request.spec.minMember
	least != null
	least < 1
}

violation contains {"path": sprintf("spec.minTaskMember[%s]", [name]), "message": sprintf("the number of pods must not be negative (%v)", [least])} if {
	some name, least in request.map(request.spec, "minTaskMember")
	least != null
	least < 0
}
