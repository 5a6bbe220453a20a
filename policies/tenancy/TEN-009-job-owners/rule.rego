package trainyard.rules.ten_009

import data.trainyard.lib.owners
import data.trainyard.lib.request
import rego.v1

violation contains {"path": "metadata.ownerReferences", "message": message} if {
	foreign := [owner.kind |
		some owner in owners.controllers(request.metadata)
		owner.kind in request.parameter("TEN-009", "kinds")
	]
	count(foreign) > 0
	message := sprintf("a controller of kind %s is not allowed", [concat(", ", foreign)])
}
