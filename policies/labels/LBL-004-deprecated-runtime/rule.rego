package trainyard.rules.lbl_004

import data.trainyard.lib.request
import rego.v1

violation contains {"path": "spec.runtimeRef", "message": sprintf("runtime \"%v\" is deprecated%s", [name, until])} if {
	request.map(runtime_metadata, "labels")["trainer.kubeflow.org/support"] == "deprecated"
	name := request.text(runtime_metadata, "name")
}

runtime_metadata := request.map(request.runtime, "metadata")

until := sprintf(" and will be removed after %v", [date]) if {
	date := request.map(runtime_metadata, "annotations")["trainyard.dev/remove-after"]
} else := ""
