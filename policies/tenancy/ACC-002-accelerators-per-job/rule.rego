package trainyard.rules.acc_002

import data.trainyard.lib.accelerators
import data.trainyard.lib.pod_templates
import data.trainyard.lib.quantities
import data.trainyard.lib.request
import data.trainyard.lib.workloads
import rego.v1

ceiling := request.tenant_policy.maxAcceleratorsPerJob

violation contains {"path": "spec", "message": "the accelerators of this job cannot be counted"} if {
	is_number(ceiling)
	not countable
}

violation contains {"path": "spec", "message": message} if {
	is_number(ceiling)
	countable
	asked > 0
	asked > ceiling
	message := sprintf("the job requests %v accelerators; the limit of this namespace is %v", [asked, ceiling])
}

asked := sum([amount |
	some unit in units
	amount := unit.copies * of_pod(unit)
])

# Effective resources of a pod: the sum of its containers, or a single init container if that requests more.
of_pod(unit) := max(array.concat(
	[sum([of_container(c.resources) | some c in unit.containers; not c.first])],
	[of_container(c.resources) | some c in unit.containers],
))

# Amounts of an accelerator that are not counts, such as its memory, are those of one.
of_container(resources) := max(array.concat(
	[
		sum([quantities.amount(value) | some value in amounts(resources).counts]),
		sum([1 | count(amounts(resources).measures) > 0]),
	],
	[accelerators.of_hundredths(quantities.amount(value)) | some value in amounts(resources).hundredths],
))

amounts(resources) := {
	"counts": [value | some name, value in effective(resources); accelerator(name)],
	"measures": [value | some name, value in effective(resources); accelerators.measure(name); not accelerators.hundredths(name); not zero(value)],
	"hundredths": [value | some name, value in effective(resources); accelerators.measure(name); accelerators.hundredths(name)],
}

# Limits take precedence over requests; a limit of null is unset.
effective(resources) := object.union(workloads.amounts(resources, "requests"), workloads.amounts(resources, "limits"))

zero(value) if sprintf("%v", [value]) == "0"

accelerator(name) if accelerators.is_device_class(name)

accelerator(name) if accelerators.recognized(name)

accelerator(name) if {
	name in request.parameter("ACC-002", "resources")
	not accelerators.measure(name)
}

countable if {
	every unit in units {
		not unit.claims
		every container in unit.containers {
			every value in array.concat(amounts(container.resources).counts, amounts(container.resources).hundredths) {
				quantities.amount(value) >= 0
			}
		}
	}
}

units := array.concat([of_trainer], of_pods)

# Fields of a TrainJob; other kinds do not have them.
of_trainer := {"copies": request.copies(trainer, "numNodes"), "containers": [{"resources": request.map(trainer, "resourcesPerNode")}]}

trainer := request.map(request.spec, "trainer")

of_pods := [unit |
	some pod in pod_templates.pods
	counts := pod.counts
	copies := product([number | some number in counts; is_number(number)])
	copies > 0
	containers := [{"resources": request.map(entry.container, "resources"), "first": first(entry)} |
		some entry in pod_templates.containers
		entry.pod.specPath == pod.specPath
	]
	claims := count(request.list(pod.spec, "resourceClaims")) > 0
	unit := {"copies": copies, "claims": claims, "containers": containers}
]

# An ordinary init container ends before the others start; a restartable one keeps running beside them.
first(entry) if {
	entry.field == "initContainers"
	not entry.container.restartPolicy == "Always"
} else := false
