package trainyard.rules.ten_009

import data.trainyard.lib.request
import rego.v1

violation contains {"path": "metadata.ownerReferences", "message": "this kind of controller is not allowed"} if {
	some owner in request.list(request.metadata, "ownerReferences")
	owner.controller == true
	owner.kind in request.parameter("TEN-009", "kinds")
}
