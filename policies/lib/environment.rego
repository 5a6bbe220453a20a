package trainyard.lib.environment

import rego.v1

# Whether one of a runtime's frameworks sets this variable itself. Reserved are entries framework=NAME; a final * stands
# for any text.
taken(name, policy, reserved) if {
	some entry in reserved
	parts := split(entry, "=")
	is_object(policy[parts[0]])
	fits(name, parts[1])
}

fits(name, wanted) if name == wanted

fits(name, wanted) if {
	endswith(wanted, "*")
	startswith(name, trim_suffix(wanted, "*"))
}
