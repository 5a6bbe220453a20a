package trainyard.lib.accelerators

import data.trainyard.lib.request
import rego.v1

# Accelerators by the name of their resource. The patterns are those of trainyard/jobs/render/accelerators.py.

# Whether one unit of a resource is an accelerator, by its name or because the platform lists it.
counted(name) if recognized(name)

counted(name) if {
	name in request.list(request.platform, "acceleratorResources")
	not measure(name)
}

recognized(name) if {
	concerned(name)
	not measured(name)
}

# Whether a resource is an amount of an accelerator that is not a count, such as its memory.
measure(name) if {
	concerned(name)
	measured(name)
}

# Whether a resource allocates an accelerator or a share of one; device classes become claims.
allocates(name) if concerned(name)

allocates(name) if is_device_class(name)

is_device_class(name) if startswith(name, "deviceclass.resource.kubernetes.io/")

# Accelerators in an amount of hundredths; the last of several is not complete.
of_hundredths(amount) := floor((amount + 99) / 100)

hundredths(name) if name in data.trainyard.accelerators.hundredths.exact

hundredths(name) if {
	some text in data.trainyard.accelerators.hundredths.ends
	endswith(name, text)
}

concerned(name) if {
	named(name)
	not other(name)
}

named(name) if {
	some text in data.trainyard.accelerators.names.starts
	startswith(name, text)
}

named(name) if {
	some text in data.trainyard.accelerators.names.ends
	endswith(name, text)
}

named(name) if {
	some text in data.trainyard.accelerators.names.contains
	contains(name, text)
}

other(name) if {
	some text in data.trainyard.accelerators.others.contains
	contains(name, text)
}

measured(name) if name in data.trainyard.accelerators.measures.exact

measured(name) if {
	some text in data.trainyard.accelerators.measures.starts
	startswith(name, text)
}

measured(name) if {
	some text in data.trainyard.accelerators.measures.ends
	endswith(name, text)
}

measured(name) if {
	some text in data.trainyard.accelerators.measures.contains
	contains(name, text)
}
