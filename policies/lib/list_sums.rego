package trainyard.lib.list_sums

import data.trainyard.lib.gang_lengths
import data.trainyard.lib.list_lengths
import data.trainyard.lib.old_lengths
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.task_lengths
import data.trainyard.lib.term_weights
import rego.v1

# Lists of an object that exceed the parameters of BND-002, and what several lists contain together: entries
# {length, limit} by path.

lists := object.union_n([list_lengths.lists, requirements, task_lengths.of_tasks, gang_lengths.of_gang])

# Lists of all containers together.
of_all_containers := list_lengths.exceeding("together", {"spec": items}) if {
	list_lengths.deeper
} else := {}

items := sum([count(request.list(entry.container, field)) |
	some entry in pod_templates.containers
	some field in ["env", "envFrom", "ports", "volumeMounts", "volumeDevices"]
])

# Labels, expressions, values, namespaces and keys by which pods choose nodes and each other.
requirements := {path: {"length": number, "limit": limit, "before": before} |
	limit := request.parameter("BND-002", "requirements")
	list_lengths.deeper
	count(list_lengths.of_terms) == 0
	some pod in pod_templates.pods
	some field, terms in terms_of(pod.spec)
	number := term_weights.sum_of(terms)
	number > limit
	path := sprintf("%s.%s", [pod.specPath, field])
	before := term_weights.sum_of(terms_of(old_lengths.value(pod.specPath))[field])
}

terms_of(spec) := {
	"nodeSelector": [{"matchLabels": request.map(spec, "nodeSelector")}],
	"topologySpreadConstraints": request.list(spec, "topologySpreadConstraints"),
	"affinity": array.flatten([
		request.list(request.map(of_nodes, list_lengths.required), "nodeSelectorTerms"),
		[each.preference | some each in request.list(of_nodes, list_lengths.preferred)],
		[each |
			some kind in ["podAffinity", "podAntiAffinity"]
			some each in request.list(request.map(affinity, kind), list_lengths.required)
		],
		[each.podAffinityTerm |
			some kind in ["podAffinity", "podAntiAffinity"]
			some each in request.list(request.map(affinity, kind), list_lengths.preferred)
		],
	]),
} if {
	affinity := request.map(spec, "affinity")
	of_nodes := request.map(affinity, "nodeAffinity")
}
