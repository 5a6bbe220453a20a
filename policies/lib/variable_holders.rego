package trainyard.lib.variable_holders

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Variables, prefixes of variables and mounts of containers and of the parts of a TrainJob that have them.

# Entries {path, name, variable}.
variables := [{"path": sprintf("%s.env[%s]", [holder.path, name]), "name": name, "variable": variable} |
	some holder in holders
	some variable in request.list(holder.container, "env")
	name := request.text(variable, "name")
]

# Entries {path, prefix}.
prefixes := [{"path": sprintf("%s.envFrom[%d].prefix", [holder.path, i]), "prefix": request.text(source, "prefix")} |
	some holder in holders
	some i, source in request.list(holder.container, "envFrom")
]

# Entries {path, target}.
mounts := [{"path": sprintf("%s.volumeMounts[%d].mountPath", [holder.path, i]), "target": target} |
	some holder in holders
	some i, mount in request.list(holder.container, "volumeMounts")
	target := request.text(mount, "mountPath")
]

holders := array.concat(containers, [
	{"path": "spec.trainer", "container": request.map(request.spec, "trainer")},
	{"path": "spec.initializer.dataset", "container": request.map(initializer, "dataset")},
	{"path": "spec.initializer.model", "container": request.map(initializer, "model")},
])

initializer := request.map(request.spec, "initializer")

# An update of a pod itself cannot change containers in this.
containers := [{"path": entry.path, "container": entry.container} |
	not kept
	some entry in pod_templates.containers
]

kept if {
	updates_pod
	request.subresource != "ephemeralcontainers"
}

updates_pod if {
	request.kind == "Pod"
	request.operation == "UPDATE"
}
