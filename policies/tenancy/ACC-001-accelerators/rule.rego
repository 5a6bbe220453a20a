package trainyard.rules.acc_001

import data.trainyard.lib.accelerators as names
import data.trainyard.lib.pod_resources
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": sprintf("%s.schedulerName", [pod.specPath]), "message": message} if {
	some pod in pod_templates.pods
	asked := accelerators(pod)
	count(asked) > 0
	scheduler := scheduler_of(pod)
	scheduler != ""
	not scheduler in request.parameter("ACC-001", "schedulers")
	message := sprintf("scheduler \"%v\" must not allocate %s", [scheduler, concat(", ", asked)])
}

violation contains {"path": sprintf("%s.nodeName", [pod.specPath]), "message": message} if {
	some pod in pod_templates.pods
	asked := accelerators(pod)
	count(asked) > 0
	request.object_get(pod.spec, "nodeName", "") != ""
	message := sprintf("nodeName bypasses the scheduler for %s", [concat(", ", asked)])
}

scheduler_of(pod) := pod.spec.schedulerName if {
	not request.object_get(pod.spec, "schedulerName", "") == ""
} else := assumed

# Default scheduler of a template; undefined or empty if it is set later.
assumed := request.object_get(request.spec, "schedulerName", "") if request.api_group == "batch.volcano.sh"

assumed := "default-scheduler" if {
	not request.kind in ["TrainingRuntime", "ClusterTrainingRuntime"]
	request.api_group != "batch.volcano.sh"
}

accelerators(pod) := array.flatten([
	[name |
		some name in request.list(request.platform, "acceleratorResources")
		pod_resources.asks(pod, name)
	],
	[name | some name in undeclared(pod)],
	["device classes" | pod_resources.asks_device_class(pod)],
	["resourceClaims" | count(request.list(pod.spec, "resourceClaims")) > 0],
])

# Resources of accelerators that the platform does not list, in a tenant's namespace.
undeclared(pod) := {name |
	"trainyard.dev/tenant" in object.keys(request.namespace_labels)
	some name in pod_resources.names(pod)
	names.concerned(name)
	not names.is_device_class(name)
	not name in request.list(request.platform, "acceleratorResources")
	pod_resources.asks(pod, name)
}
