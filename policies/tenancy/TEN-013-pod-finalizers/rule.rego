package trainyard.rules.ten_013

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": sprintf("%s.finalizers[%d]", [entry.path, i]), "message": message} if {
	evaluated
	some entry in metadatas
	some i, name in request.list(entry.metadata, "finalizers")
	not name in request.parameter("TEN-013", "finalizers")
	not name in kept
	message := sprintf("finalizer \"%v\" is not allowed", [name])
}

evaluated if request.kind == "Pod"

evaluated if not request.old_object

evaluated if request.object_get(request.object, "spec", null) != request.object_get(request.old_object, "spec", null)

# Finalizers that the pod has.
default kept := []

kept := request.list(request.object_get(request.old_object, "metadata", {}), "finalizers") if request.kind == "Pod"

# Metadata of pods and of pod templates: entries {path, metadata}.
metadatas contains {"path": "metadata", "metadata": request.metadata} if request.kind == "Pod"

metadatas contains {"path": "spec.template.metadata", "metadata": metadata} if {
	request.api_group == "batch"
	metadata := request.spec.template.metadata
}

metadatas contains {"path": path, "metadata": pod.metadata} if {
	some pod in pod_templates.pods
	path := sprintf("%s.metadata", [pod.path])
}
