package trainyard.rules.que_003

import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": "target", "message": message} if {
	lower(request.text(request.map(request.object, "target"), "kind")) == "queue"
	not users.of_the_platform("QUE-003")
	message := sprintf("user \"%v\" may not send a command to a queue", [request.user.name])
}
