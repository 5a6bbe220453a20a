package trainyard.rules.ten_015

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": path, "message": message} if {
	not of_the_cluster
	not users.is_platform("TEN-015")
	part := {"status": "status", "resize": "size"}[request.subresource]
	path := {"status": "status", "resize": "spec.containers"}[request.subresource]
	name := request.text(request.metadata, "name")
	message := sprintf("user \"%v\" cannot write the %s of pod \"%s\"", [request.user.name, part, name])
}

of_the_cluster if {
	some name in request.parameter("TEN-015", "groups")
	name in request.user.groups
}
