package trainyard.lib.environment

import rego.v1

# Names that a framework of the runtime sets itself. Reserved names are entries framework=NAME; a trailing * matches any
# text.
taken(names, policy, reserved) := {name |
	some pattern in of_frameworks(policy, reserved)
	some name in names
	fits(name, pattern)
}

fits(name, pattern) if name == pattern

fits(name, pattern) if {
	endswith(pattern, "*")
	startswith(name, trim_suffix(pattern, "*"))
}

of_frameworks(policy, reserved) := {trim_prefix(entry, start) |
	some framework, settings in policy
	is_object(settings)
	start := sprintf("%s=", [framework])
	some entry in reserved
	startswith(entry, start)
}
