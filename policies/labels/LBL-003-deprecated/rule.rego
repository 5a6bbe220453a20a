package trainyard.rules.lbl_003

import data.trainyard.lib.request
import rego.v1

label := "trainer.kubeflow.org/support"

violation contains {"path": sprintf("metadata.labels[%s]", [label]), "message": "the runtime is deprecated and will be removed"} if {
	request.map(request.metadata, "labels")[label] == "deprecated"
}
