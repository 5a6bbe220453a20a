package trainyard.lib.term_weights

import data.trainyard.lib.request
import rego.v1

# What terms contain together: labels, expressions, values, namespaces and keys.
sum_of(terms) := sum([weight(term) | some term in terms])

weight(term) := sum(array.concat(
	[count(request.list(term, field)) | some field in ["namespaces", "matchLabelKeys", "mismatchLabelKeys"]],
	[size(selector) | some selector in [term, request.map(term, "labelSelector"), request.map(term, "namespaceSelector")]],
))

size(selector) := count(request.map(selector, "matchLabels")) + sum([number |
	some field in ["matchExpressions", "matchFields"]
	some each in request.list(selector, field)
	number := count(request.list(each, "values")) + 1
])
