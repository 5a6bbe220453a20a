package trainyard.lib.accelerator_amounts

import data.trainyard.lib.accelerators
import data.trainyard.lib.quantities
import data.trainyard.lib.request
import data.trainyard.lib.workloads
import rego.v1

# Amounts of accelerators in the resources of a container; the parameter resources of a rule names further accelerators.
of(resources, id) := {
	"counts": [value | some name, value in effective(resources); counted(name, id)],
	"measures": [value |
		some name, value in effective(resources)
		accelerators.measure(name)
		not accelerators.hundredths(name)
		not zero(value)
	],
	"hundredths": [value |
		some name, value in effective(resources)
		accelerators.measure(name)
		accelerators.hundredths(name)
	],
}

# Limits take precedence over requests; a limit of null is unset.
effective(resources) := object.union(workloads.amounts(resources, "requests"), workloads.amounts(resources, "limits"))

# Accelerators of a container. Amounts that are not counts, such as the memory of an accelerator, are those of one.
total(resources, id) := max(array.concat(
	[
		sum([quantities.amount(value) | some value in of(resources, id).counts]),
		sum([1 | count(of(resources, id).measures) > 0]),
	],
	[accelerators.of_hundredths(quantities.amount(value)) | some value in of(resources, id).hundredths],
))

# Amounts that are no numbers of at least zero, with their resources.
uncounted(resources, id) := {sprintf("%s: %v", [name, value]) |
	some name, value in effective(resources)
	numbered(name, id)
	not countable(value)
}

countable(value) if quantities.amount(value) >= 0

numbered(name, id) if counted(name, id)

numbered(name, _) if {
	accelerators.measure(name)
	accelerators.hundredths(name)
}

zero(value) if sprintf("%v", [value]) == "0"

counted(name, _) if accelerators.is_device_class(name)

counted(name, _) if accelerators.recognized(name)

counted(name, id) if {
	name in request.parameter(id, "resources")
	not accelerators.measure(name)
}

# Whether resources have several accelerators, also of those that only the platform lists.
several(resources) if count(accelerators_of(resources)) > 1

several(resources) if {
	some amount in accelerators_of(resources)
	not quantities.equals(amount, 1)
}

accelerators_of(resources) := [amount |
	some name, amount in resources
	amount != null
	accelerators.counted(name)
	not quantities.equals(amount, 0)
]
