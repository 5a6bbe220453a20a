package trainyard.rules.ten_016

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": sprintf("spec.externalIPs[%d]", [i]), "message": message} if {
	not users.is_platform("TEN-016")
	some i, address in request.list(request.spec, "externalIPs")
	not address in request.parameter("TEN-016", "addresses")
	not address in before
	message := sprintf("Services of this namespace cannot take address \"%v\"", [address])
}

# Addresses that the Service has.
default before := []

before := request.list(request.object_get(request.old_object, "spec", {}), "externalIPs")
