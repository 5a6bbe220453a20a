package trainyard.lib.queues

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

annotation := "scheduling.volcano.sh/queue-name"

# All references to a Volcano queue: entries {path, queue}. The annotation is read at every depth, because a pod's own
# annotation takes precedence over its owners'. The API server drops null values.
references contains {"path": sprintf("%s.annotations[%s]", [entry.path, annotation]), "queue": queue} if {
	some entry in pod_templates.metadatas
	queue := request.map(entry.metadata, "annotations")[annotation]
	queue != null
}

references contains {"path": "spec.queue", "queue": queue} if {
	queue := request.spec.queue
	queue != null
}

# A PodGroup or a Volcano Job without a queue uses the default queue.
references contains {"path": "spec.queue", "queue": "default"} if {
	request.api_group in ["scheduling.volcano.sh", "batch.volcano.sh"]
	request.object_get(request.spec, "queue", null) == null
}
