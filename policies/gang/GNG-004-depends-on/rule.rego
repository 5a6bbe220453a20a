package trainyard.rules.gng_004

import data.trainyard.lib.replicated_jobs
import data.trainyard.lib.request
import rego.v1

tasks := request.list(request.spec, "tasks")

name_of(i, task) := request.object_get(task, "name", sprintf("default%d", [i]))

needs(task) := request.list(request.map(task, "dependsOn"), "name")

follows(task, stage) if {
	request.map(task, "dependsOn").iteration == "any"
	some need in needs(task)
	need in stage
}

follows(task, stage) if {
	every need in needs(task) {
		need in stage
	}
}

next(stage) := {name_of(i, task) | some i, task in tasks; follows(task, stage)}

first := {name_of(i, task) | some i, task in tasks; count(needs(task)) == 0}

reached := next(next(next(next(next(next(next(first)))))))

endless contains i if {
	some i, task in tasks
	not name_of(i, task) in reached
}

violation contains {"path": sprintf("spec.tasks[%d].dependsOn", [i]), "message": message} if {
	some i in endless
	message := "dependsOn is circular, names an unknown task, or forms a chain of more than eight tasks"
}

least := request.spec.minAvailable if {
	request.spec.minAvailable > 0
} else := sum([request.number(task, "minAvailable", request.number(task, "replicas", 0)) | some task in tasks])

startable := sum([request.number(task, "replicas", 0) | some task in tasks; count(needs(task)) == 0])

violation contains {"path": "spec.minAvailable", "message": message} if {
	count(endless) == 0
	some task in tasks
	count(needs(task)) > 0
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
