package trainyard.rules.que_001

import data.trainyard.lib.queues
import data.trainyard.lib.request
import rego.v1

violation contains {"path": entry.path, "message": message} if {
	some entry in queues.references
	not well_formed(entry.queue)
	message := sprintf("\"%v\" is not a valid queue name; an empty string and namespace/queue are not supported", [entry.queue])
}

violation contains {"path": entry.path, "message": sprintf("\"%v\" is not a leaf queue of this cluster", [entry.queue])} if {
	some entry in queues.references
	well_formed(entry.queue)
	not entry.queue in request.list(request.platform, "leafQueues")
}

well_formed(queue) if {
	is_string(queue)
	regex.match(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`, queue)
}
