package trainyard.rules.bnd_004

import data.trainyard.lib.amount_bounds
import data.trainyard.lib.amounts
import data.trainyard.lib.counts
import data.trainyard.lib.request
import data.trainyard.lib.requested_amounts
import rego.v1

violation contains {"path": path, "message": message} if {
	not kept
	some path, amount in amounts.unbounded
	message := sprintf("amount \"%s\" is not a quantity of at most 32 characters, exponents from -18 to 18 and 8P", [beginning(amount)])
}

violation contains {"path": total_path, "message": message} if {
	not kept
	count(amounts.unbounded) == 0
	some kind, limit in amount_bounds.largest_together
	requested_amounts.together[kind] > limit
	message := "all pods together request more than a scheduler counts, which is 8P and 8E of memory"
}

total_path := "spec.containers" if {
	request.kind == "Pod"
} else := counts.concurrent_path

beginning(amount) := sprintf("%s...", [substring(text, 0, amount_bounds.longest)]) if {
	text := sprintf("%v", [amount])
	count(text) > amount_bounds.longest
} else := sprintf("%v", [amount])

# An update that leaves the spec as it is, or suspends the object and changes nothing else.
kept if {
	request.operation == "UPDATE"
	request.written == request.old_spec
}

kept if {
	request.operation == "UPDATE"
	request.written.suspend == true
	object.remove(request.written, ["suspend"]) == object.remove(request.old_spec, ["suspend"])
}
