package trainyard.rules.ten_024

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "options.propagationPolicy", "message": message} if {
	orphans
	not users.is_platform("TEN-024")
	message := sprintf("user \"%v\" cannot delete a TrainJob without its objects", [request.user.name])
}

orphans if request.options.propagationPolicy == "Orphan"

orphans if request.options.orphanDependents == true
