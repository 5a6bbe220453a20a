package trainyard.lib.gang_amounts

import data.trainyard.lib.quantities
import data.trainyard.lib.request
import rego.v1

# Amounts of minResources that a request sets in a PodGroup, by resource: those that are not quantities, below zero, and
# above zero.

unreadable := {name: beginning(amount) |
	some name, amount in amounts
	amount != null
	not quantities.amount(amount)
}

beginning(amount) := sprintf("%s...", [substring(amount, 0, quantities.longest)]) if {
	is_string(amount)
	count(amount) > quantities.longest
} else := amount

negative := {name: amount | some name, amount in amounts; quantities.amount(amount) < 0}

claimed := {name: amount | some name, amount in amounts; quantities.amount(amount) > 0}

amounts := map if {
	map := request.map(request.spec, "minResources")
	map != request.map(request.map(old, "spec"), "minResources")
}

# The object before the request; empty for a creation.
default old := {}

old := request.old_object
