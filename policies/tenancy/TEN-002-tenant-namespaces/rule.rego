package trainyard.rules.ten_002

import data.trainyard.lib.places
import data.trainyard.lib.queues
import data.trainyard.lib.request
import rego.v1

of_a_tenant if "trainyard.dev/tenant" in object.keys(request.namespace_labels)

violation contains {"path": sprintf("%s.schedulerName", [pod.specPath]), "message": message} if {
	not of_a_tenant
	some pod in places.pods
	scheduler := request.object_get(pod.spec, "schedulerName", "default-scheduler")
	scheduler in request.parameter("TEN-002", "schedulers")
	message := sprintf("namespace \"%v\" belongs to no tenant and may not use the scheduler \"%v\"", [request.namespace, scheduler])
}

violation contains {"path": entry.path, "message": sprintf("namespace \"%v\" belongs to no tenant and may not use queues", [request.namespace])} if {
	not of_a_tenant
	some entry in queues.named
}
