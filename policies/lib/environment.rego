package trainyard.lib.environment

import rego.v1

# Names that a framework of the runtime sets itself. Reserved names are entries framework=NAME; a trailing * matches any
# text.
reserved_names(names, policy, reserved) := {name |
	some pattern in patterns(policy, reserved)
	some name in names
	matches(name, pattern)
}

matches(name, pattern) if name == pattern

matches(name, pattern) if {
	endswith(pattern, "*")
	startswith(name, trim_suffix(pattern, "*"))
}

patterns(policy, reserved) := {split(entry, "=")[1] |
	some framework, settings in policy
	is_object(settings)
	start := sprintf("%s=", [framework])
	some entry in reserved
	startswith(entry, start)
}
