package trainyard.rules.ten_023

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "spec", "message": message} if {
	not users.is_platform("TEN-023")
	message := sprintf("user \"%v\" cannot write a %s of Volcano, whose jobs are evaluated unseen", [request.user.name, request.kind])
}
