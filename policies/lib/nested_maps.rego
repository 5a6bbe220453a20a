package trainyard.lib.nested_maps

import rego.v1

# The entries of a map at a path of fields; undefined if one of them is null or no map.
at(subject, path) := value if {
	is_object(subject)
	value := object.get(subject, path, {})
	is_object(value)
}
