package trainyard.rules.ten_012

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

ceiling := request.parameter("TEN-012", "maxGracePeriodSeconds")

violation contains {"path": sprintf("%s.terminationGracePeriodSeconds", [entry.path]), "message": message} if {
	some entry in periods
	entry.seconds > ceiling
	message := sprintf("grace period of %v seconds; at most %d are allowed", [entry.seconds, ceiling])
}

periods contains {"path": pod.specPath, "seconds": seconds} if {
	some pod in pod_templates.pods
	seconds := pod.spec.terminationGracePeriodSeconds
}

periods contains {"path": sprintf("%s.%s", [entry.path, probe]), "seconds": seconds} if {
	some entry in pod_templates.containers
	some probe in ["livenessProbe", "startupProbe"]
	seconds := entry.container[probe].terminationGracePeriodSeconds
}

violation contains {"path": sprintf("%s.initContainers[%d].resources", [pod.specPath, i]), "message": message} if {
	not users.is_platform("TEN-012")
	some pod in pod_templates.pods
	some i, container in request.list(pod.spec, "initContainers")
	holds(container)
	message := sprintf("init container \"%v\" must not request accelerators", [container.name])
}

holds(container) if {
	some kind in ["limits", "requests"]
	some name, amount in request.map(container.resources, kind)
	amount != null
	accelerator(name)
}

accelerator(name) if contains(name, "gpu")

accelerator(name) if contains(name, "/mig-")

accelerator(name) if name in request.parameter("TEN-012", "resources")

accelerator(name) if startswith(name, "deviceclass.resource.kubernetes.io/")
