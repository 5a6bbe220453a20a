package trainyard.rules.ten_008

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "spec.schedulingGates", "message": sprintf("only the owner can remove gate %s", [name])} if {
	not users.is_platform("TEN-008")
	some name in names(request.map(request.old_object, "spec"))
	not name in names(request.spec)
	some start in request.parameter("TEN-008", "owners")
	startswith(name, start)
}

names(spec) := [request.text(gate, "name") | some gate in request.list(spec, "schedulingGates")]
