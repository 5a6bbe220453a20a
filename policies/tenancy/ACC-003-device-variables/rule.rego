package trainyard.rules.acc_003

import data.trainyard.lib.environment
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

device_variables := request.parameter("ACC-003", "deviceVariables")

violation contains {"path": entry.path, "message": message} if {
	some entry in found
	message := sprintf("%s gives devices that were not requested", [entry.what])
}

found contains {"path": path, "what": what} if {
	some holder in holders
	some variable in request.list(holder.container, "env")
	name := request.text(variable, "name")
	name in device_variables
	not hides(variable)
	path := sprintf("%s.env[%s]", [holder.path, name])
	what := sprintf("%s=%s", [name, shown(variable)])
}

found contains {"path": path, "what": concat(" ", ["prefix", prefix])} if {
	some holder in holders
	some i, source in request.list(holder.container, "envFrom")
	prefix := request.text(source, "prefix")
	prefix != ""
	some name in device_variables
	startswith(name, prefix)
	path := sprintf("%s.envFrom[%d].prefix", [holder.path, i])
}

found contains {"path": path, "what": concat(" ", ["mount", target])} if {
	some holder in holders
	some i, mount in request.list(holder.container, "volumeMounts")
	target := request.text(mount, "mountPath")
	some folder in request.parameter("ACC-003", "deviceMounts")
	contains(target, folder)
	path := sprintf("%s.volumeMounts[%d].mountPath", [holder.path, i])
}

found contains {"path": path, "what": concat(" ", ["annotation", name])} if {
	some entry in pod_templates.metadatas
	some name, value in request.map(entry.metadata, "annotations")
	value != null
	some pattern in request.parameter("ACC-003", "deviceAnnotations")
	environment.matches(name, pattern)
	not settled(name, value)
	path := sprintf("%s.annotations[%s]", [entry.path, name])
}

hides(variable) if {
	request.object_get(variable, "valueFrom", null) == null
	request.text(variable, "value") in ["", "none", "void"]
}

shown(variable) := "(valueFrom)" if {
	request.object_get(variable, "valueFrom", null) != null
} else := request.text(variable, "value")

# Containers, and the parts of a TrainJob that have variables of a container.
holders := array.concat(containers, [
	{"path": "spec.trainer", "container": request.map(request.spec, "trainer")},
	{"path": "spec.initializer.dataset", "container": request.map(initializer, "dataset")},
	{"path": "spec.initializer.model", "container": request.map(initializer, "model")},
])

initializer := request.map(request.spec, "initializer")

# An update of a pod itself cannot change containers in this.
default containers := []

containers := [{"path": entry.path, "container": entry.container} | some entry in pod_templates.containers] if {
	not updates_pod
}

containers := [{"path": entry.path, "container": entry.container} | some entry in pod_templates.containers] if {
	request.subresource == "ephemeralcontainers"
}

updates_pod if {
	request.kind == "Pod"
	request.operation == "UPDATE"
}

# Annotations of an existing pod that are unchanged, or that the platform writes.
settled(name, value) if {
	updates_pod
	request.map(request.map(request.old_object, "metadata"), "annotations")[name] == value
}

settled(_, _) if {
	updates_pod
	users.is_platform("ACC-003")
}
