package trainyard.lib.device_sources

import data.trainyard.lib.environment
import data.trainyard.lib.request
import data.trainyard.lib.variable_holders
import rego.v1

# What gives a container devices that it did not request, or more of a device: entries {path, what}.

given(names, folders) := array.flatten([
	[{"path": entry.path, "what": sprintf("%s=%s", [entry.name, text])} |
		some entry in variable_holders.variables
		entry.name in names
		text := value(entry.variable)
		not text in ["", "none", "void"]
	],
	[{"path": entry.path, "what": concat(" ", ["prefix", entry.prefix])} |
		some entry in variable_holders.prefixes
		entry.prefix != ""
		starts(names, entry.prefix)
	],
	[{"path": entry.path, "what": concat(" ", ["mount", entry.target])} |
		some entry in variable_holders.mounts
		named(folders, entry.target)
	],
])

# Variables without which a container would be held within its share, whatever the value.
lifted(patterns) := array.concat(
	[{"path": entry.path, "what": sprintf("%s=%s", [entry.name, value(entry.variable)])} |
		some entry in variable_holders.variables
		matching(entry.name, patterns)
	],
	[{"path": entry.path, "what": concat(" ", ["prefix", entry.prefix])} |
		some entry in variable_holders.prefixes
		entry.prefix != ""
		completable(entry.prefix, patterns)
	],
)

matching(name, patterns) if {
	some pattern in patterns
	environment.matches(name, pattern)
}

# Whether a key after the prefix can be such a variable.
completable(prefix, patterns) if starts(patterns, prefix)

completable(prefix, patterns) if matching(prefix, patterns)

starts(names, prefix) if {
	some name in names
	startswith(name, prefix)
}

named(folders, target) if {
	some folder in folders
	contains(target, folder)
}

value(variable) := "(valueFrom)" if {
	request.object_get(variable, "valueFrom", null) != null
} else := request.text(variable, "value")
