package trainyard.rules.lbl_003

import data.trainyard.lib.request
import rego.v1

violation contains {"path": "metadata.labels[trainer.kubeflow.org/support]", "message": message} if {
	request.map(request.metadata, "labels")["trainer.kubeflow.org/support"] == "deprecated"
	message := sprintf("runtime \"%s\" is deprecated and will be removed%s", [request.text(request.metadata, "name"), after])
}

after := sprintf(" after %s", [date]) if {
	date := request.text(request.map(request.metadata, "annotations"), "trainyard.dev/remove-after")
	date != ""
} else := ""
