package trainyard.rules.pgp_001

import data.trainyard.lib.request
import rego.v1

policy := request.map(request.spec, "podGroupPolicy")

configured := [name | some name in data.trainyard.sources.podGroupPolicy; is_object(policy[name])]

violation contains {"path": "spec.podGroupPolicy", "message": sprintf("only one gang scheduler can be configured: %s", [concat(", ", configured)])} if {
	count(configured) > 1
}
