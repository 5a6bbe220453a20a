package trainyard.rules.ten_022

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": path, "message": message} if {
	not users.is_platform("TEN-022")
	not harmless
	message := sprintf("a PodDisruptionBudget of a tenant cannot deny evictions (%s)", [values])
}

values := "without limits" if {
	count(fields) == 0
} else := concat(", ", [sprintf("%s %v", [name, request.spec[name]]) | some name in fields])

fields := [name | some name in ["maxUnavailable", "minAvailable"]; request.object_get(request.spec, name, null) != null]

harmless if {
	not "maxUnavailable" in fields
	regex.match(`^0+%?$`, request.text(request.spec, "minAvailable"))
}

path := "spec" if count(fields) == 0

path := sprintf("spec.%s", [fields[0]])
