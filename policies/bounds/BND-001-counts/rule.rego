package trainyard.rules.bnd_001

import data.trainyard.lib.counts
import data.trainyard.lib.job_counts
import data.trainyard.lib.request
import rego.v1

annotation := "scheduling.volcano.sh/group-min-member"
limit(name) := request.parameter("BND-001", name)

violation contains {"path": counts.concurrent_path, "message": message} if {
	request.kind != "TrainJob"
	counts.concurrent_pods > limit("pods")
	message := sprintf("%d pods at once exceed the limit of %d", [counts.concurrent_pods, limit("pods")])
}

violation contains {"path": counts.concurrent_path, "message": message} if {
	job_counts.total > limit("pods")
	counts.concurrent_pods <= limit("pods")
	message := sprintf("%d Jobs exceed the limit of %d", [job_counts.total, limit("pods")])
}

violation contains {"path": counts.concurrent_path, "message": message} if {
	job_counts.completions > limit("completions")
	count(job_counts.long(limit("completions"))) == 0
	message := sprintf("%d completions of all Jobs exceed the limit of %d", [job_counts.completions, limit("completions")])
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
	some job in job_counts.long(limit("completions"))
	message := sprintf("%v completions exceed the limit of %d", [job.spec.completions, limit("completions")])
}

violation contains {"path": sprintf("%s.annotations[%s]", [gang.path, annotation]), "message": message} if {
	some gang in job_counts.gangs(limit("pods"))
	text := request.map(gang.metadata, "annotations")[annotation]
	is_string(text)
	regex.match(`^[+]?0*[0-9]{1,10}$`, text)
	gang.pods > 0
	to_number(text) > gang.pods
	message := sprintf("a minimum of %s exceeds the %v pods of the %s", [text, gang.pods, gang.kind])
}
