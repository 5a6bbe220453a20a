package trainyard.rules.que_004

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

allowed := array.concat(request.texts(request.tenant_policy, "queues"), request.parameter("QUE-004", "shared"))

violation contains {"path": entry.path, "message": message} if {
	some entry in named
	not entry.queue in allowed
	message := sprintf("KAI queue \"%v\" is not one of this namespace's queues (%s)", [entry.queue, listed])
}

named contains {"path": sprintf("%s.labels[kai.scheduler/queue]", [entry.path]), "queue": queue} if {
	some entry in pod_templates.metadatas
	queue := request.map(entry.metadata, "labels")["kai.scheduler/queue"]
	queue != null
}

named contains {"path": "spec.podGroupPolicy.kai.queue", "queue": queue} if {
	queue := request.spec.podGroupPolicy.kai.queue
	queue != null
}

listed := "none" if count(allowed) == 0

listed := concat(", ", allowed) if count(allowed) > 0
