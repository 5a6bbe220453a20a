package trainyard.lib.accelerator_amounts

import data.trainyard.lib.accelerators
import data.trainyard.lib.quantities
import rego.v1

# Amounts of accelerators in the resources {name: amount} of a container, where further names are accelerators too.
of(resources, further) := {
	"counts": [value | some name, value in resources; counted(name, further)],
	"measures": [value |
		some name, value in resources
		accelerators.measure(name)
		not accelerators.hundredths(name)
		not zero(value)
	],
	"hundredths": [value | some name, value in resources; accelerators.measure(name); accelerators.hundredths(name)],
}

# Accelerators of these amounts. Amounts that are not counts, such as the memory of an accelerator, are those of one.
total(amounts) := max(array.concat(
	[
		sum([quantities.amount(value) | some value in amounts.counts]),
		sum([1 | count(amounts.measures) > 0]),
	],
	[accelerators.of_hundredths(quantities.amount(value)) | some value in amounts.hundredths],
))

# Whether each amount has a number.
countable(amounts) if {
	every value in array.concat(amounts.counts, amounts.hundredths) {
		quantities.amount(value) >= 0
	}
}

zero(value) if sprintf("%v", [value]) == "0"

counted(name, _) if accelerators.is_device_class(name)

counted(name, _) if accelerators.recognized(name)

counted(name, further) if {
	name in further
	not accelerators.measure(name)
}
