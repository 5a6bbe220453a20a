package trainyard.lib.old_lengths

import data.trainyard.lib.request
import rego.v1

# Whether a length exceeds that before an update: entries {length} of a list or a name, by path as in manifests, and
# {length, before} of sums.
grows(path, entry) if not kept(path, entry)

kept(path, entry) if entry.length <= before(path, entry)

before(_, entry) := entry.before

before(path, entry) := count(value(path)) if {
	not entry.before
	type_name(value(path)) in ["array", "object", "string"]
}

# The value before an update; null if there is none. No path ends with an index.
value(path) := object.get(old_object, steps(path), null)

default old_object := {}

old_object := request.old_object

steps(path) := [step |
	some part in regex.split(`[.\[\]]+`, path)
	step := step_of(part)
]

step_of(part) := to_number(part) if {
	regex.match(`^[0-9]{1,9}$`, part)
} else := part
