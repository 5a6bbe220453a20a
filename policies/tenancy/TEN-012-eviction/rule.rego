package trainyard.rules.ten_012

import data.trainyard.lib.grace_periods
import data.trainyard.lib.init_containers
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

violation contains {"path": sprintf("%s.resources", [entry.path]), "message": message} if {
	not users.is_platform("TEN-012")
	some entry in init_containers.holding
	message := sprintf("init container \"%v\" must not request accelerators", [entry.name])
}

violation contains {"path": entry.path, "message": message} if {
	not users.is_platform("TEN-012")
	some entry in init_containers.waiting
	message := sprintf("init container \"%v\" precedes containers that request accelerators", [entry.name])
}

violation contains {"path": sprintf("%s.lifecycle.postStart", [entry.path]), "message": message} if {
	not users.is_platform("TEN-012")
	some entry in init_containers.hooked
	message := sprintf("container \"%v\" of a pod that requests accelerators must not have a postStart hook", [entry.name])
}
