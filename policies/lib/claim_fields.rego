package trainyard.lib.claim_fields

import data.trainyard.lib.claims
import data.trainyard.lib.request
import rego.v1

# Volumes, classes and annotations of the cluster that a request sets in claims, by path. Values that an updated claim
# already has are left out.

volumes[path] := name if {
	some entry in claims.all
	name := request.text(request.map(entry.claim, "spec"), "volumeName")
	name != ""
	not kept(["spec", "volumeName"], name)
	path := sprintf("%s.volumeName", [entry.spec])
}

classes[path] := name if {
	some entry in claims.all
	name := request.map(entry.claim, "spec").storageClassName
	name != null
	not kept(["spec", "storageClassName"], name)
	path := sprintf("%s.storageClassName", [entry.spec])
}

# The old annotation takes precedence over the field.
classes[annotation.path] := annotation.value if {
	some annotation in annotations(["volume.beta.kubernetes.io/storage-class"])
}

attributes_classes[path] := name if {
	some entry in claims.all
	name := request.text(request.map(entry.claim, "spec"), "volumeAttributesClassName")
	name != ""
	not kept(["spec", "volumeAttributesClassName"], name)
	path := sprintf("%s.volumeAttributesClassName", [entry.spec])
}

# Labels and expressions of the selector of a claim, as text.
selected(claim) := concat(", ", array.concat(
	sort([sprintf("%s=%v", [key, value]) | some key, value in request.map(selector, "matchLabels")]),
	[sprintf("%s %s", [request.text(term, "key"), request.text(term, "operator")]) |
		some term in request.list(selector, "matchExpressions")
	],
)) if {
	selector := request.map(request.map(claim, "spec"), "selector")
}

# Annotations of the scheduler and the volume controller.
of_cluster[annotation.path] := annotation.key if {
	some annotation in annotations([
		"pv.kubernetes.io/bind-completed",
		"pv.kubernetes.io/bound-by-controller",
		"volume.beta.kubernetes.io/storage-provisioner",
		"volume.kubernetes.io/selected-node",
		"volume.kubernetes.io/storage-provisioner",
	])
}

annotations(keys) := [{"path": path, "key": key, "value": value} |
	some entry in claims.all
	some key in keys
	value := request.map(request.map(entry.claim, "metadata"), "annotations")[key]
	value != null
	not kept(["metadata", "annotations", key], value)
	path := sprintf("%s.annotations[%s]", [entry.metadata, key])
]

kept(field, value) if {
	updates_claim
	object.get(request.old_object, field, null) == value
}

updates_claim if {
	request.kind == "PersistentVolumeClaim"
	request.operation == "UPDATE"
}
