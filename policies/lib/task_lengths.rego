package trainyard.lib.task_lengths

import data.trainyard.lib.list_lengths
import data.trainyard.lib.old_lengths
import data.trainyard.lib.request
import rego.v1

# Volumes, policies with their events, dependencies and arguments of a Volcano Job that exceed the parameters of BND-002: entries
# {length, limit} by path.
of_tasks := object.union_n([
	list_lengths.exceeding("items", by_path), list_lengths.exceeding("arguments", of_plugins), of_policies,
])

by_path["spec.volumes"] := count(request.list(request.spec, "volumes")) if volcano

by_path[path] := count(request.list(request.map(task, "dependsOn"), "name")) if {
	volcano
	some i, task in request.list(request.spec, "tasks")
	path := sprintf("spec.tasks[%d].dependsOn.name", [i])
}

of_plugins[path] := count(arguments) if {
	volcano
	some name, arguments in request.map(request.spec, "plugins")
	is_array(arguments)
	path := sprintf("spec.plugins.%s", [name])
}

of_policies := {path: {"length": number, "limit": limit, "before": events(old_lengths.value(path))} |
	volcano
	limit := request.parameter("BND-002", "items")
	some path, list in policies
	number := events(list)
	number > limit
}

policies["spec.policies"] := request.list(request.spec, "policies")

policies[path] := request.list(task, "policies") if {
	some i, task in request.list(request.spec, "tasks")
	path := sprintf("spec.tasks[%d].policies", [i])
}

volcano if {
	request.api_group == "batch.volcano.sh"
	list_lengths.deeper
}

events(list) := sum([number |
	some policy in list
	number := count(request.list(policy, "events")) + 1
])
