package trainyard.rules.que_003

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "target", "message": message} if {
	lower(request.text(request.map(request.object, "target"), "kind")) == "queue"
	not users.is_platform("QUE-003")
	message := sprintf("user \"%v\" cannot send commands to queues", [request.user.name])
}
