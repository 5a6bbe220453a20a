package trainyard.lib.job_counts

import data.trainyard.lib.jobs
import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Jobs of a JobSet or a runtime, also those without pods: JobSet keeps an object of each in memory.
total := sum([entry.jobs | some entry in replicated])

completions := sum([of_part |
	some part in replicated
	of_part := part.jobs * part.completions
])

replicated := [{"jobs": replicas, "completions": max([request.number(spec, "completions", 0), 0])} |
	request.kind != "TrainJob"
	some listed in pod_templates.replicated_jobs
	replicas := max([request.copies(listed.job, "replicas"), 0])
	spec := request.map(request.map(listed.job, "template"), "spec")
]

# Jobs with more completions than the limit.
long(limit) := [job |
	some job in jobs.all
	request.number(job.spec, "completions", 0) > limit
]

# Jobs, and controllers of pods, whose pods are a gang: entries {path, metadata, pods, kind}. A DaemonSet has as many pods
# as there are nodes, at most those of the limit.
gangs(limit) := array.concat(
	[object.union(job, {"pods": request.number(job.spec, "parallelism", 1), "kind": "Job"}) | some job in jobs.all],
	[{"path": "metadata", "metadata": request.metadata, "pods": replicas, "kind": request.kind} |
		request.kind in request.replicated_kinds
		replicas := object.get({"DaemonSet": limit}, request.kind, request.number(request.written, "replicas", 1))
	],
)
