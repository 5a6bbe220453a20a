package trainyard.rules.lbl_002

import data.trainyard.lib.request
import rego.v1

path := "metadata.labels[trainer.kubeflow.org/framework]"

framework := object.get(request.map(request.metadata, "labels"), "trainer.kubeflow.org/framework", "")

frameworks := request.parameter("LBL-002", "frameworks")

violation contains {"path": path, "message": "the label is missing or empty"} if {
	framework == ""
	not framework in frameworks
}

violation contains {"path": path, "message": message} if {
	framework != ""
	not framework in frameworks
	message := sprintf("framework \"%v\" is not one of %s", [framework, concat(", ", frameworks)])
}
