package trainyard.rules.ten_013

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": entry.path, "message": sprintf("finalizer \"%v\" is not allowed", [entry.name])} if {
	some entry in own
	not by_platform
}

violation contains {"path": entry.path, "message": sprintf("finalizer \"%v\" is not allowed", [entry.name])} if {
	evaluated
	some listed in pod_templates.template_metadatas
	some entry in foreign(listed.path, listed.metadata)
}

foreign(path, metadata) := [{"path": sprintf("%s.finalizers[%d]", [path, i]), "name": name} |
	some i, name in request.list(metadata, "finalizers")
	not name in request.parameter("TEN-013", "finalizers")
]

# Finalizers that the object itself gets.
own := [entry |
	some entry in foreign("metadata", request.metadata)
	not entry.name in kept
	not of_claim(entry.name)
]

of_claim(name) if {
	request.kind == "PersistentVolumeClaim"
	name in request.parameter("TEN-013", "claimFinalizers")
}

by_platform if {
	request.kind != "Pod"
	users.is_platform("TEN-013")
}

# The Job controller counts its pods by a finalizer, and pods get no others from the platform.
by_platform if {
	users.is_platform("TEN-013")
	every entry in own {
		entry.name in request.parameter("TEN-013", "controllerFinalizers")
	}
}

evaluated if not request.old_object

# Updates that leave the object suspended are always possible; its templates are evaluated when it is resumed.
evaluated if {
	not request.spec.suspend == true
	request.written != request.old_spec
}

# Finalizers that the object has.
default kept := []

kept := request.list(request.object_get(request.old_object, "metadata", {}), "finalizers")
