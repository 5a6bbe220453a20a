package trainyard.lib.init_containers

import data.trainyard.lib.accelerators
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Containers that keep accelerators from being reclaimed: entries {path, name}.

# Init containers that request accelerators.
holding := [entry |
	some entry in all
	asks(entry.container)
]

# Init containers of pods that request accelerators, unless the parameter of TEN-012 allows them.
waiting := [entry |
	not request.parameter("TEN-012", "initContainers")
	some entry in all
	holds(entry.pod)
]

# Containers of pods that request accelerators, with a hook after their start: no pod is running before it ends.
hooked := [{"path": entry.path, "name": entry.container.name} |
	request.operation != "DELETE"
	some entry in pod_templates.containers
	request.map(entry.container, "lifecycle").postStart != null
	holds(entry.pod.spec)
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
