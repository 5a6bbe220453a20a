package trainyard.lib.device_requests

import data.trainyard.lib.accelerators
import data.trainyard.lib.quantities
import data.trainyard.lib.request
import rego.v1

# Whether a container requests an accelerator whose resource begins with one of the texts, or a resource that is one of
# them: the device plug-in then sets the variable that the container runtime reads.
one_of(container, starts) if {
	some name, amount in request.map(request.map(container, "resources"), "limits")
	listed(name, starts)
	quantities.amount(amount) > 0
}

listed(name, starts) if {
	accelerators.recognized(name)
	some start in starts
	startswith(name, start)
}

listed(name, starts) if name in starts
