package trainyard.rules.acc_004

import data.trainyard.lib.device_sources
import data.trainyard.lib.request
import rego.v1

violation contains {"path": path, "message": sprintf("key %s becomes a variable that gives devices", [name])} if {
	some field in ["data", "stringData"]
	some name, value in request.map(request.object, field)
	name in request.parameter("ACC-004", "deviceVariables")
	not hides(value)
	path := sprintf("%s[%s]", [field, name])
}

violation contains {"path": path, "message": message} if {
	some field in ["data", "stringData"]
	some name, _ in request.map(request.object, field)
	device_sources.matching(name, request.parameter("ACC-004", "limitVariables"))
	path := sprintf("%s[%s]", [field, name])
	message := sprintf("key %s becomes a variable that lifts the limits of a shared accelerator", [name])
}

# The values of a Secret are encoded.
hides(value) if {
	request.kind == "ConfigMap"
	value in ["", "none", "void", null]
}
