package trainyard.lib.divisor_amounts

import data.trainyard.lib.amount_bounds
import data.trainyard.lib.nested_maps
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Divisors of variables and of files by path that are no quantities, or too long or too large.

unbounded := object.union(of_variables, of_files)

of_variables[path] := amount if {
	own
	some holder in holders
	some i, each in request.list(holder.container, "env")
	amount := divisor(request.map(each, "valueFrom"))
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("%s.env[%d].valueFrom.resourceFieldRef.divisor", [holder.path, i])
}

holders := array.concat(pod_templates.containers, [{"path": path, "container": nested_maps.at(request.spec, place)} |
	some path, place in {
		"spec.trainer": ["trainer"],
		"spec.initializer.dataset": ["initializer", "dataset"],
		"spec.initializer.model": ["initializer", "model"],
	}
])

of_files[path] := amount if {
	own
	some pod in pod_templates.pods
	some i, volume in request.list(pod.spec, "volumes")
	some place, files in sources(volume)
	some k, file in request.list(files, "items")
	amount := divisor(file)
	amount_bounds.exceeds(amount, amount_bounds.largest)
	path := sprintf("%s.volumes[%d].%s.items[%d].resourceFieldRef.divisor", [pod.specPath, i, place, k])
}

sources(volume) := object.union(
	{"downwardAPI": request.map(volume, "downwardAPI")},
	{sprintf("projected.sources[%d].downwardAPI", [k]): request.map(source, "downwardAPI") |
		some k, source in request.list(request.map(volume, "projected"), "sources")
	},
)

divisor(holder) := request.map(holder, "resourceFieldRef").divisor

# Divisors of other projects' kinds: the API server reads those of its own before any rule.
own if request.api_group in ["batch.volcano.sh", "jobset.x-k8s.io", "trainer.kubeflow.org"]
