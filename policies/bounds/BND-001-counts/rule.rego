package trainyard.rules.bnd_001

import data.trainyard.lib.counts
import data.trainyard.lib.jobs
import data.trainyard.lib.request
import rego.v1

annotation := "scheduling.volcano.sh/group-min-member"

limit(name) := request.parameter("BND-001", name)

violation contains {"path": counts.concurrent_path, "message": message} if {
	request.kind != "TrainJob"
	counts.concurrent_pods > limit("pods")
	message := sprintf("%d pods at once exceed the limit of %d", [counts.concurrent_pods, limit("pods")])
}

violation contains {"path": path, "message": sprintf("%d nodes exceed the limit of %d", [count, limit("pods")])} if {
	some path, count in counts.nodes
	count > limit("pods")
}

violation contains {"path": path, "message": message} if {
	some path, text in counts.processes
	to_number(text) > limit("processes")
	message := sprintf("%s processes of a node exceed the limit of %d", [text, limit("processes")])
}

violation contains {"path": "spec.minMember", "message": message} if {
	count := request.spec.minMember
	is_number(count)
	count > limit("pods")
	message := sprintf("a minimum of %d exceeds the limit of %d pods", [count, limit("pods")])
}

violation contains {"path": sprintf("%s.completions", [job.at]), "message": message} if {
	some job in jobs.all
	count := request.number(job.spec, "completions", 0)
	count > limit("completions")
	message := sprintf("%v completions exceed the limit of %d", [count, limit("completions")])
}

violation contains {"path": sprintf("%s.annotations[%s]", [gang.path, annotation]), "message": message} if {
	some gang in gangs
	text := request.map(gang.metadata, "annotations")[annotation]
	is_string(text)
	regex.match(`^[+]?[0-9]{1,10}$`, text)
	gang.pods > 0
	to_number(trim_left(text, "+")) > gang.pods
	message := sprintf("a minimum of %s exceeds the %v pods of the %s", [text, gang.pods, gang.kind])
}

# Gangs of Jobs and of controllers: entries {path, metadata, pods, kind}. A DaemonSet has as many pods as there are nodes.
gangs := array.concat(
	[object.union(job, {"pods": request.number(job.spec, "parallelism", 1), "kind": "Job"}) | some job in jobs.all],
	[{"path": "metadata", "metadata": request.metadata, "pods": replicas, "kind": request.kind} |
		request.kind in request.replicated_kinds
		replicas := object.get({"DaemonSet": limit("pods")}, request.kind, request.number(request.written, "replicas", 1))
	],
)
