package trainyard.lib.metadata_changes

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Annotations and labels that a request sets, at every depth: entries {path, field, key}. Values that the object itself
# or its template had before are left out.
all contains {"path": path, "field": field, "key": key} if {
	some entry in pod_templates.metadatas
	evaluated(entry.path)
	some field in ["annotations", "labels"]
	some key, value in request.map(entry.metadata, field)
	value != null
	not kept(entry.path, field, key, value)
	path := sprintf("%s.%s[%s]", [entry.path, field, key])
}

evaluated(path) if path in ["metadata", "spec.template.metadata"]

evaluated(_) if not suspended

# Stopping an object must always be possible: only metadata that the update changes is evaluated.
suspended if {
	request.operation == "UPDATE"
	request.spec.suspend == true
}

kept("metadata", field, key, value) if request.old_object.metadata[field][key] == value

kept("spec.template.metadata", field, key, value) if {
	request.old_object.spec.template.metadata[field][key] == value
}
