package trainyard.rules.ten_012

import data.trainyard.lib.accelerators
import data.trainyard.lib.grace_periods
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

ceiling := request.parameter("TEN-012", "maxGracePeriodSeconds")

violation contains {"path": sprintf("%s.terminationGracePeriodSeconds", [entry.path]), "message": message} if {
	request.operation != "DELETE"
	some entry in grace_periods.of_pods
	entry.seconds > ceiling
	message := sprintf("grace period of %v seconds; at most %d are allowed", [entry.seconds, ceiling])
}

violation contains {"path": deletion.path, "message": message} if {
	some deletion in grace_periods.of_deletion
	deletion.seconds > ceiling
	not users.is_platform("TEN-012")
	message := sprintf("deletion with a grace period of %d seconds; at most %d are allowed", [deletion.seconds, ceiling])
}

violation contains {"path": sprintf("%s.initContainers[%d].resources", [pod.specPath, i]), "message": message} if {
	request.operation != "DELETE"
	not users.is_platform("TEN-012")
	some pod in pod_templates.pods
	some i, container in request.list(pod.spec, "initContainers")
	holds(container)
	message := sprintf("init container \"%v\" must not request accelerators", [container.name])
}

holds(container) if {
	some kind in ["limits", "requests"]
	some name, amount in request.map(container.resources, kind)
	amount != null
	accelerator(name)
}

accelerator(name) if accelerators.allocates(name)

accelerator(name) if name in request.parameter("TEN-012", "resources")
