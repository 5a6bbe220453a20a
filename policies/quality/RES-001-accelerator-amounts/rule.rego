package trainyard.rules.res_001

import data.trainyard.lib.accelerators
import data.trainyard.lib.workloads
import rego.v1

violation contains {"path": sprintf("%s.%s[%s]", [entry.path, kind, name]), "message": message} if {
	some entry in workloads.resources
	some kind, amounts in {"limits": entry.limits, "requests": entry.requests}
	some name, amount in amounts
	accelerators.counted(name)
	not plain(amount)
	message := sprintf("the amount %v is not a plain whole number", [amount])
}

violation contains {"path": sprintf("%s.requests[%s]", [entry.path, name]), "message": message} if {
	some entry in workloads.resources
	some name, amount in entry.requests
	accelerators.counted(name)
	limit := object.get(entry.limits, name, "0")
	sprintf("%v", [limit]) != sprintf("%v", [amount])
	message := sprintf("the request %v differs from the limit %v", [amount, limit])
}

plain(amount) if regex.match(`^(0|[1-9][0-9]*[kMGTPE]?)$`, sprintf("%v", [amount]))
