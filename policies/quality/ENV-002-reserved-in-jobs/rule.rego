package trainyard.rules.env_002

import data.trainyard.lib.environment
import data.trainyard.lib.request
import data.trainyard.lib.workloads
import rego.v1

policy := request.map(request.map(request.runtime, "spec"), "mlPolicy")

taken := environment.reserved_names(
	{variable.name | some variable in workloads.environment},
	policy, request.parameter("ENV-002", "reserved"),
)

violation contains {"path": path, "message": sprintf("reserved for the runtime's framework: %s", [variable.name])} if {
	some variable in workloads.environment
	variable.name in taken
	path := sprintf("%s.env[%v]", [variable.path, variable.name])
}
