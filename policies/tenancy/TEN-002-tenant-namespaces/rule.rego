package trainyard.rules.ten_002

import data.trainyard.lib.pod_templates
import data.trainyard.lib.queues
import data.trainyard.lib.request
import rego.v1

of_a_tenant if "trainyard.dev/tenant" in object.keys(request.namespace_labels)

violation contains {"path": sprintf("%s.schedulerName", [pod.specPath]), "message": message} if {
	not of_a_tenant
	some pod in pod_templates.pods
	scheduler := request.object_get(pod.spec, "schedulerName", "default-scheduler")
	scheduler in request.parameter("TEN-002", "schedulers")
	message := sprintf("namespace \"%v\" has no tenant and cannot use scheduler \"%v\"", [request.namespace, scheduler])
}

violation contains {"path": entry.path, "message": sprintf("namespace \"%v\" has no tenant and cannot use queues", [request.namespace])} if {
	not of_a_tenant
	some entry in queues.references
}
