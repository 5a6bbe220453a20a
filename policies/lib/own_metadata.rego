package trainyard.lib.own_metadata

import data.trainyard.lib.request
import rego.v1

# Labels and annotations of the object itself, before and after the request, and the keys whose values differ.

labels := request.map(request.metadata, "labels")

old_labels := request.map(old_metadata, "labels")

annotations := request.map(request.metadata, "annotations")

old_annotations := request.map(old_metadata, "annotations")

changed_labels := changed(labels, old_labels)

changed_annotations := changed(annotations, old_annotations)

changed(values, old_values) := {key |
	some key in (object.keys(values) | object.keys(old_values))
	not values[key] == old_values[key]
}

default old_metadata := {}

old_metadata := request.map(request.old_object, "metadata")
