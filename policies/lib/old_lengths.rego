package trainyard.lib.old_lengths

import data.trainyard.lib.request
import rego.v1

# Whether a length exceeds that before an update: entries {length} of a list or a name, by path as in manifests, and
# {length, before} of sums.
grows(_, _) if request.operation != "UPDATE"

grows(path, entry) if entry.length > object.get(entry, "before", length(value(path)))

length(value) := count(value) if {
	type_name(value) in ["array", "string"]
} else := 0

# The value before an update; null if there is none. No path ends with an index.
value(path) := object.get(request.old_object, steps(path), null) if {
	is_object(request.old_object)
} else := null

steps(path) := [step |
	some part in regex.split(`[.\[\]]+`, path)
	step := step_of(part)
]

step_of(part) := to_number(part) if {
	regex.match(`^[0-9]{1,9}$`, part)
} else := part
