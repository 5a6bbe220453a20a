package trainyard.rules.acc_002

import data.trainyard.lib.accelerator_amounts
import data.trainyard.lib.request
import data.trainyard.lib.units
import rego.v1

ceiling := request.tenant_policy.maxAcceleratorsPerJob

violation contains {"path": "spec", "message": "the accelerators of this job cannot be counted"} if {
	is_number(ceiling)
	not countable
}

# A Scale shows no template: added replicas cannot be counted.
violation contains {"path": "spec", "message": "the accelerators of this job cannot be counted"} if {
	is_number(ceiling)
	request.kind == "Scale"
	request.number(request.spec, "replicas", 0) > request.number(request.old_spec, "replicas", 0)
}

violation contains {"path": "spec", "message": message} if {
	is_number(ceiling)
	countable
	asked > 0
	asked > ceiling
	message := sprintf("the job requests %v accelerators; the limit of this namespace is %v", [asked, ceiling])
}

asked := sum([amount |
	some unit in units.all
	amount := unit.copies * of_pod(unit)
])

# Effective resources of a pod: the sum of its containers, or a single init container if that requests more.
of_pod(unit) := max(array.concat(
	[sum([accelerator_amounts.total(c.resources, "ACC-002") | some c in unit.containers; not c.first])],
	[accelerator_amounts.total(c.resources, "ACC-002") | some c in unit.containers],
))

countable if {
	every unit in units.all {
		not unit.claims
		every container in unit.containers {
			accelerator_amounts.countable(container.resources, "ACC-002")
		}
	}
}
