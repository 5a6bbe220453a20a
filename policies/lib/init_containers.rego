package trainyard.lib.init_containers

import data.trainyard.lib.accelerators
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Init containers that keep accelerators from being reclaimed: entries {path, name}.

# Those that request accelerators.
holding := [entry |
	some entry in all
	asks(entry.container)
]

# Ordinary ones of pods that request accelerators, unless the parameter of TEN-012 allows them.
waiting := [entry |
	not request.parameter("TEN-012", "initContainers")
	some entry in all
	not entry.container.restartPolicy == "Always"
	holds(entry.pod)
]

all := [entry |
	request.operation != "DELETE"
	some pod in pod_templates.pods
	some i, container in request.list(pod.spec, "initContainers")
	path := sprintf("%s.initContainers[%d]", [pod.specPath, i])
	entry := {"path": path, "name": container.name, "container": container, "pod": pod.spec}
]

holds(pod) if {
	some container in request.list(pod, "containers")
	asks(container)
}

holds(pod) if count(request.list(pod, "resourceClaims")) > 0

# Its TrainJobs set the amounts.
holds(_) if request.kind == "TrainingRuntime"

asks(container) if {
	some kind in ["limits", "requests"]
	some name, amount in request.map(container.resources, kind)
	amount != null
	accelerator(name)
}

accelerator(name) if accelerators.allocates(name)

accelerator(name) if name in request.parameter("TEN-012", "resources")
