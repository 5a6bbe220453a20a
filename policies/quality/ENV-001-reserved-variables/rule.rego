package trainyard.rules.env_001

import data.trainyard.lib.environment
import data.trainyard.lib.request
import data.trainyard.lib.workloads
import rego.v1

taken := environment.reserved_names(
	{variable.name | some variable in workloads.environment},
	request.map(request.spec, "mlPolicy"), request.parameter("ENV-001", "reserved"),
)

violation contains {"path": path, "message": sprintf("reserved for the framework: %s", [variable.name])} if {
	some variable in workloads.environment
	variable.name in taken
	path := sprintf("%s.env[%v]", [variable.path, variable.name])
}
