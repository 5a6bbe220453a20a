package trainyard.rules.acc_003

import data.trainyard.lib.device_sources
import data.trainyard.lib.environment
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import data.trainyard.lib.variable_holders
import rego.v1

violation contains {"path": entry.path, "message": message} if {
	some entry in found
	message := sprintf("%s gives devices that were not requested", [entry.what])
}

violation contains {"path": entry.path, "message": sprintf("%s lifts the limits of a shared accelerator", [entry.what])} if {
	some entry in device_sources.lifted(request.parameter("ACC-003", "limitVariables"))
}

found contains entry if {
	some entry in device_sources.given(
		request.parameter("ACC-003", "deviceVariables"),
		request.parameter("ACC-003", "deviceMounts"),
	)
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

# Annotations of an existing pod that are unchanged, or that the platform writes.
settled(name, value) if {
	variable_holders.updates_pod
	request.map(request.map(request.old_object, "metadata"), "annotations")[name] == value
}

settled(_, _) if {
	variable_holders.updates_pod
	users.is_platform("ACC-003")
}
