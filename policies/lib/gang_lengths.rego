package trainyard.lib.gang_lengths

import data.trainyard.lib.list_lengths
import data.trainyard.lib.old_lengths
import data.trainyard.lib.request
import data.trainyard.lib.term_weights
import rego.v1

# Groups of pods in a PodGroup that exceed the parameters of BND-002, or what their selectors contain together: entries
# {length, limit} by path.
of_gang := object.union(groups, selectors)

groups := list_lengths.exceeding("groups", {sprintf("spec.%s", [field]): count(request.spec[field]) |
	request.kind == "PodGroup"
	some field in ["minTaskMember", "subGroupPolicy"]
})

selectors["spec.subGroupPolicy"] := {"length": number, "limit": limit, "before": before} if {
	request.kind == "PodGroup"
	count(groups) == 0
	limit := request.parameter("BND-002", "requirements")
	number := term_weights.sum_of(request.list(request.spec, "subGroupPolicy"))
	number > limit
	before := term_weights.sum_of(old_lengths.value("spec.subGroupPolicy"))
}
