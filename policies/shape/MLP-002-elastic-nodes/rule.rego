package trainyard.rules.mlp_002

import data.trainyard.lib.request
import rego.v1

policy := request.map(request.spec, "mlPolicy")

violation contains {"path": "spec.mlPolicy", "message": "numNodes and torch.elasticPolicy are mutually exclusive"} if {
	request.object_get(policy, "numNodes", null) != null
	is_object(request.map(policy, "torch").elasticPolicy)
}
