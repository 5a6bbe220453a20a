package trainyard.rules.acc_002

import data.trainyard.lib.accelerator_amounts
import data.trainyard.lib.request
import data.trainyard.lib.units
import rego.v1

ceiling := request.tenant_policy.maxAcceleratorsPerJob

violation contains {"path": "spec", "message": message} if {
	is_number(ceiling)
	count(uncounted) > 0
	names := concat(", ", sort(uncounted))
	message := sprintf("the accelerators of %s cannot be counted; the limit of this namespace is %v", [names, ceiling])
}

violation contains {"path": "spec", "message": message} if {
	is_number(ceiling)
	count(uncounted) == 0
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

uncounted contains text if {
	some unit in units.all
	some text in unit.unknown
}

uncounted contains text if {
	some unit in units.all
	some container in unit.containers
	some text in accelerator_amounts.uncounted(container.resources, "ACC-002")
}

# A Scale shows no template.
uncounted contains sprintf("%d added replicas", [added]) if {
	request.kind == "Scale"
	added := request.number(request.spec, "replicas", 0) - request.number(request.old_spec, "replicas", 0)
	added > 0
}
