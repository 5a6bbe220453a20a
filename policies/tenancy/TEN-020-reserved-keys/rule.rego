package trainyard.rules.ten_020

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": entry.path, "message": sprintf("%s is reserved", [entry.what])} if {
	not scheduled
	some entry in written
	not entry.own
}

violation contains {"path": entry.path, "message": sprintf("only the controllers of Jobs write %s", [entry.what])} if {
	not scheduled
	not made
	some entry in written
	entry.own
}

# Reserved keys that the request writes: entries {path, what, own}.
written contains {"path": path, "what": sprintf("annotation %s", [key]), "own": key in own} if {
	own := request.parameter("TEN-020", "ownAnnotations")
	some entry in pod_templates.metadatas
	evaluated(entry.path)
	some key, value in request.map(entry.metadata, "annotations")
	reserved_annotation(key)
	value != null
	not kept(entry.path, "annotations", key, value)
	path := sprintf("%s.annotations[%s]", [entry.path, key])
}

written contains {"path": path, "what": sprintf("label %s", [key]), "own": key in own} if {
	own := request.parameter("TEN-020", "ownLabels")
	some entry in pod_templates.metadatas
	evaluated(entry.path)
	some key, value in request.map(entry.metadata, "labels")
	key in array.concat(request.parameter("TEN-020", "labels"), own)
	value != null
	not kept(entry.path, "labels", key, value)
	path := sprintf("%s.labels[%s]", [entry.path, key])
}

evaluated(path) if path in ["metadata", "spec.template.metadata"]

evaluated(path) if {
	not path in ["metadata", "spec.template.metadata"]
	not suspended
}

# Stopping an object must always be possible: only metadata that the update changes is evaluated.
suspended if {
	request.operation == "UPDATE"
	request.spec.suspend == true
}

reserved_annotation(key) if key in request.parameter("TEN-020", "annotations")

reserved_annotation(key) if key in request.parameter("TEN-020", "ownAnnotations")

reserved_annotation(key) if {
	some start in request.parameter("TEN-020", "prefixes")
	startswith(key, start)
}

# A value that the object itself, or the template of a Job, had before.
kept("metadata", field, key, value) if request.old_object.metadata[field][key] == value

kept("spec.template.metadata", field, key, value) if {
	request.old_object.spec.template.metadata[field][key] == value
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
	some owner in request.list(request.metadata, "ownerReferences")
	owner.controller == true
	owner.kind in ["Job", "JobSet"]
	users.is_platform("TEN-020")
}
