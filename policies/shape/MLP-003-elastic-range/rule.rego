package trainyard.rules.mlp_003

import data.trainyard.lib.request
import rego.v1

policy := request.map(request.map(request.map(request.spec, "mlPolicy"), "torch"), "elasticPolicy")

violation contains {"path": "spec.mlPolicy.torch.elasticPolicy", "message": message} if {
	policy.minNodes != null
	policy.maxNodes != null
	not ordered
	message := sprintf("minNodes %v exceeds maxNodes %v", [policy.minNodes, policy.maxNodes])
}

# Values that are not numbers are not compared.
ordered if {
	is_number(policy.minNodes)
	is_number(policy.maxNodes)
	policy.minNodes <= policy.maxNodes
}
