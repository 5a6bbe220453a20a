package trainyard.rules.mlp_001

import data.trainyard.lib.request
import rego.v1

policy := request.map(request.spec, "mlPolicy")

configured := [name | some name in data.trainyard.sources.mlPolicy; is_object(policy[name])]

violation contains {"path": "spec.mlPolicy", "message": sprintf("only one framework can be configured: %s", [concat(", ", configured)])} if {
	count(configured) > 1
}
