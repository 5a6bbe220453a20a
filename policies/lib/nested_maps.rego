package trainyard.lib.nested_maps

import rego.v1

# The entries of a map at a path of fields; empty if one of them is unset, null or invalid.
at(subject, path) := value if {
	is_object(subject)
	value := object.get(subject, path, {})
	is_object(value)
} else := {}
