package trainyard.rules.ten_021

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

classes := array.concat(request.texts(request.tenant_policy, "priorityClasses"), request.parameter("TEN-021", "defaults"))

violation contains {"path": path, "message": message} if {
	some entry in pod_templates.metadatas
	evaluated(entry.path)
	name := request.map(entry.metadata, "labels")["kueue.x-k8s.io/priority-class"]
	not name in [null, ""]
	not name in classes
	not kept(name)
	path := sprintf("%s.labels[kueue.x-k8s.io/priority-class]", [entry.path])
	message := sprintf("workload priority class \"%v\" is not one of this namespace's priority classes (%s)", [name, listed])
}

evaluated("metadata")

evaluated(_) if not suspended

# The class that a suspended object has.
kept(name) if {
	suspended
	request.old_object.metadata.labels["kueue.x-k8s.io/priority-class"] == name
}

# Stopping an object must always be possible: only metadata that the update changes is evaluated.
suspended if {
	request.operation == "UPDATE"
	request.spec.suspend == true
}

listed := "none" if count(classes) == 0

listed := concat(", ", classes) if count(classes) > 0
