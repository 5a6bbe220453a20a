package trainyard.rules.que_002

import data.trainyard.lib.queues
import data.trainyard.lib.request
import rego.v1

allowed := request.texts(request.tenant_policy, "queues")

violation contains {"path": entry.path, "message": message} if {
	some entry in queues.references
	not entry.queue in allowed
	message := sprintf("queue \"%v\" is not one of this namespace's queues (%s)", [entry.queue, listed])
}

listed := "none" if count(allowed) == 0

listed := concat(", ", allowed) if count(allowed) > 0
