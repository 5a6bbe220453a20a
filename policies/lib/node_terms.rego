package trainyard.lib.node_terms

import data.trainyard.lib.request
import rego.v1

# Terms of the node affinity of a pod, and its tolerations, as messages show them.

all(affinity) := array.concat(
	request.list(request.map(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms"),
	[request.map(each, "preference") |
		some each in request.list(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
	],
)

text(term) := sprintf("\"%s\"", [concat(" ", array.concat(
	[request.text(term, "key"), request.text(term, "operator")],
	[concat(",", array.concat(array.slice(values, 0, 3), ["..." | count(values) > 3])) | count(values) > 0],
))]) if {
	values := request.texts(term, "values")
}

taint(toleration) := sprintf("\"%s\" with value \"%s\"", [request.text(toleration, "key"), value]) if {
	value := request.text(toleration, "value")
	value != ""
} else := sprintf("\"%s\"", [request.text(toleration, "key")])
