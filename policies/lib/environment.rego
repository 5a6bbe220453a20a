package trainyard.lib.environment

import rego.v1

# Whether one of a runtime's frameworks sets this variable itself. Reserved are entries framework=NAME; a final * stands
# for any text.
taken(name, policy, reserved) if name in exact(policy, reserved)

taken(name, policy, reserved) if {
	some start in starts(policy, reserved)
	startswith(name, start)
}

exact(policy, reserved) := {name |
	some name in of_frameworks(policy, reserved)
	not endswith(name, "*")
}

starts(policy, reserved) := {trim_suffix(name, "*") |
	some name in of_frameworks(policy, reserved)
	endswith(name, "*")
}

of_frameworks(policy, reserved) := {parts[1] |
	some entry in reserved
	parts := split(entry, "=")
	is_object(policy[parts[0]])
}
