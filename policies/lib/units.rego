package trainyard.lib.units

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Pods that an object creates, and the nodes of a TrainJob: entries {copies, unknown, containers}, with the claims of the pod,
# which have no amounts, and the containers {first, resources}, where first is whether the container ends before the others
# start.
all := array.concat([of_trainer], of_pods)

# Fields of a TrainJob; other kinds do not have them.
of_trainer := {"copies": request.copies(trainer, "numNodes"), "containers": [{"resources": request.map(trainer, "resourcesPerNode")}]}

trainer := request.map(request.spec, "trainer")

of_pods := [unit |
	some pod in pod_templates.pods
	counts := pod.counts
	written := product([number | some number in counts; is_number(number)])
	written > 0
	copies := written + surge
	containers := [{"first": first(entry), "resources": request.map(entry.container, "resources")} |
		some entry in pod_templates.containers
		entry.pod.specPath == pod.specPath
	]
	unknown := [sprintf("claim \"%s\"", [request.text(claim, "name")]) | some claim in request.list(pod.spec, "resourceClaims")]
	unit := {"copies": copies, "unknown": unknown, "containers": containers}
]

# Pods that the strategy of a Deployment adds during an update.
default surge := 0

surge := added(sprintf("%v", [request.object_get(rolling, "maxSurge", "25%")])) if {
	request.kind == "Deployment"
	request.text(strategy, "type") in ["", "RollingUpdate"]
}

strategy := request.map(request.spec, "strategy")

rolling := request.map(strategy, "rollingUpdate")

# More digits than any limit has; such a number may be too large to calculate with.
added(text) := 999999999 if regex.match(`^[0-9]{10,}%?$`, text)

added(text) := to_number(text) if regex.match(`^[0-9]{1,9}$`, text)

added(text) := ceil((to_number(trim_suffix(text, "%")) * request.copies(request.spec, "replicas")) / 100) if {
	regex.match(`^[0-9]{1,9}%$`, text)
}

# An ordinary init container ends before the others start; a restartable one keeps running beside them.
first(entry) if {
	entry.field == "initContainers"
	not entry.container.restartPolicy == "Always"
} else := false
