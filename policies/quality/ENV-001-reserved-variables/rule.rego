package trainyard.rules.env_001

import data.trainyard.lib.environment
import data.trainyard.lib.request
import data.trainyard.lib.workloads
import rego.v1

taken := environment.taken(
	{variable.name | some variable in workloads.environment},
	request.map(request.spec, "mlPolicy"), request.parameter("ENV-001", "reserved"),
)

violation contains {"path": path, "message": sprintf("the framework itself sets %s", [variable.name])} if {
	some variable in workloads.environment
	variable.name in taken
	path := sprintf("%s.env[%v]", [variable.place, variable.name])
}
