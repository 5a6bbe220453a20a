package trainyard.lib.name_lengths

import data.trainyard.lib.list_lengths
import data.trainyard.lib.listed_controllers
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Names of an object from which controllers make others, where they exceed the parameter characters of BND-002: entries
# {length, limit} by path.

long[path] := {"length": count(name), "limit": limit} if {
	limit := request.parameter("BND-002", "characters")
	some path, name in names
	count(name) > limit
}

names["metadata.name"] := request.text(request.metadata, "name") if request.kind in ["TrainJob", "JobSet"]

names["metadata.name"] := request.text(request.metadata, "name") if request.api_group == "batch.volcano.sh"

names[path] := request.text(entry.job, "name") if {
	count(list_lengths.of_object) == 0
	some entry in pod_templates.replicated_jobs
	path := sprintf("%s.name", [entry.path])
}

names[path] := request.text(task, "name") if {
	count(list_lengths.of_object) == 0
	not listed_controllers.listed
	some i, task in request.list(request.spec, "tasks")
	path := sprintf("spec.tasks[%d].name", [i])
}
