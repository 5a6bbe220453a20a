package trainyard.rules.ten_020

import data.trainyard.lib.metadata_changes
import data.trainyard.lib.owners
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

parameter(name) := request.parameter("TEN-020", name)

violation contains {"path": entry.path, "message": sprintf("%s is reserved", [what(entry)])} if {
	not scheduled
	some entry in metadata_changes.all
	reserved(entry.field, entry.key)
	not own(entry)
}

violation contains {"path": entry.path, "message": sprintf("only the controllers of Jobs write %s", [what(entry)])} if {
	not scheduled
	not made
	some entry in metadata_changes.all
	own(entry)
}

what(entry) := sprintf("%s %s", [trim_suffix(entry.field, "s"), entry.key])

own(entry) if entry.key in {"annotations": parameter("ownAnnotations"), "labels": parameter("ownLabels")}[entry.field]

reserved("labels", key) if key in parameter("labels")

reserved("annotations", key) if key in parameter("annotations")

reserved("annotations", key) if {
	some start in parameter("prefixes")
	startswith(key, start)
}

# The scheduler writes into existing pods.
scheduled if {
	request.kind == "Pod"
	request.operation == "UPDATE"
	users.is_platform("TEN-020")
}

# Volcano copies the annotations of an existing ReplicaSet into the PodGroup that it makes for its pods.
scheduled if {
	request.kind == "PodGroup"
	request.operation == "CREATE"
	users.is_platform("TEN-020")
}

# The controllers of JobSets and Jobs create Jobs and pods of their own.
made if {
	some owner in owners.controllers(request.metadata)
	owner.kind in ["Job", "JobSet"]
	users.is_platform("TEN-020")
}
