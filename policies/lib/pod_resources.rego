package trainyard.lib.pod_resources

import data.trainyard.lib.accelerators
import data.trainyard.lib.quantities
import data.trainyard.lib.request
import rego.v1

# Resources that a pod requests, in its containers and init containers.

names(pod) := {name |
	some field in ["containers", "initContainers"]
	some container in request.list(pod.spec, field)
	some kind in ["limits", "requests"]
	some name, _ in request.map(container.resources, kind)
}

# Whether a pod requests a resource; an amount of zero requests nothing.
asks(pod, name) if {
	some field in ["containers", "initContainers"]
	some container in request.list(pod.spec, field)
	some amounts in container.resources
	amount := amounts[name]
	amount != null
	not quantities.equals(amount, 0)
}

asks_device_class(pod) if {
	some name in names(pod)
	accelerators.is_device_class(name)
}
