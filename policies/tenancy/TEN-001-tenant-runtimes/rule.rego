package trainyard.rules.ten_001

import data.trainyard.lib.request
import rego.v1

reference := request.map(request.spec, "runtimeRef")

runtime := request.text(reference, "name")

runtimes := request.texts(request.tenant_policy, "runtimes")

violation contains {"path": "spec.runtimeRef.name", "message": message} if {
	not reference.kind == "TrainingRuntime"
	not "*" in runtimes
	not runtime in runtimes
	message := sprintf("ClusterTrainingRuntime \"%v\" is not one of this namespace's runtimes (%s)", [runtime, listed])
}

listed := "none" if count(runtimes) == 0

listed := concat(", ", runtimes) if count(runtimes) > 0
