package trainyard.lib.task_dependencies

import data.trainyard.lib.request
import rego.v1

# Dependencies between the tasks of a Volcano Job.

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

# Tasks, by their index, that do not follow from the first ones in eight stages.
endless contains i if {
	some i, task in tasks
	not name_of(i, task) in reached
}
