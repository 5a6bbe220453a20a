package trainyard.rules.acc_003

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

found contains {"path": entry.path, "what": sprintf("%s=%s", [entry.name, devices(entry.variable)])} if {
	some entry in variable_holders.variables
	entry.name in request.parameter("ACC-003", "deviceVariables")
}

found contains {"path": entry.path, "what": concat(" ", ["prefix", entry.prefix])} if {
	some entry in variable_holders.prefixes
	entry.prefix != ""
	some name in request.parameter("ACC-003", "deviceVariables")
	startswith(name, entry.prefix)
}

found contains {"path": entry.path, "what": concat(" ", ["mount", entry.target])} if {
	some entry in variable_holders.mounts
	some folder in request.parameter("ACC-003", "deviceMounts")
	contains(entry.target, folder)
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

# Devices that a variable gives; undefined if it hides them.
devices(variable) := "(valueFrom)" if {
	request.object_get(variable, "valueFrom", null) != null
} else := text if {
	text := request.text(variable, "value")
	not text in ["", "none", "void"]
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
