package trainyard.rules.gng_002

import data.trainyard.lib.request
import rego.v1

tasks := request.list(request.spec, "tasks")

pods := sum([request.number(task, "replicas", 0) | some task in tasks])

violation contains {"path": "spec.minAvailable", "message": message} if {
	request.spec.minAvailable > pods
	message := sprintf("minAvailable is above the %d pods of the tasks", [pods])
}

violation contains {"path": sprintf("spec.tasks[%d].minAvailable", [i]), "message": "the task has fewer replicas"} if {
	some i, task in tasks
	task.minAvailable > request.object_get(task, "replicas", 0)
}

violation contains {"path": "spec.minMember", "message": "a PodGroup of 0 members is no gang"} if {
	request.spec.minMember != null
	request.spec.minMember < 1
}

violation contains {"path": sprintf("spec.minTaskMember[%s]", [name]), "message": "there is no negative number of pods"} if {
	some name, least in request.map(request.spec, "minTaskMember")
	least != null
	least < 0
}
