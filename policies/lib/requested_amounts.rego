package trainyard.lib.requested_amounts

import data.trainyard.lib.amount_bounds
import data.trainyard.lib.counts
import data.trainyard.lib.pod_templates
import data.trainyard.lib.quantities
import data.trainyard.lib.request
import rego.v1

# What all pods request, memory apart; limits count where a container has no request.
together := {kind: sum([part |
	some pod in pod_templates.pods
	copies := counts.copies(pod)
	some field in ["containers", "initContainers", "ephemeralContainers"]
	some container in request.list(pod.spec, field)
	some name, amount in requested(request.map(container, "resources"))
	sum_of(name) == kind
	part := copies * quantities.amount(amount)
]) |
	some kind, _ in amount_bounds.largest_together
}

sum_of(name) := "memory" if {
	name == "memory"
} else := "other"

requested(resources) := object.union(request.map(resources, "limits"), request.map(resources, "requests"))
