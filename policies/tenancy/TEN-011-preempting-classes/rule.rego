package trainyard.rules.ten_011

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

violation contains {"path": sprintf("%s.priorityClassName", [pod.specPath]), "message": message} if {
	some pod in pod_templates.pods
	class := class_of(pod)
	class != ""
	not class in request.parameter("TEN-011", "defaults")
	preempts(pod, class)
	scheduler := scheduler_of(pod)
	scheduler != ""
	not scheduler in request.parameter("TEN-011", "schedulers")
	message := sprintf("pods of priority class \"%v\" must not preempt under scheduler \"%v\"", [class, scheduler])
}

preempts(_, class) if class in request.parameter("TEN-011", "classes")

# The API server writes the policy of the class into pods.
preempts(pod, _) if {
	request.kind == "Pod"
	pod.spec.preemptionPolicy == "PreemptLowerPriority"
}

class_of(pod) := pod.spec.priorityClassName if {
	request.object_get(pod.spec, "priorityClassName", "") != ""
} else := inherited

# Pods of a Volcano Job without a class get that of the job.
inherited := request.spec.priorityClassName if request.api_group == "batch.volcano.sh"

scheduler_of(pod) := pod.spec.schedulerName if {
	request.object_get(pod.spec, "schedulerName", "") != ""
} else := assumed

# Scheduler of templates that name none; empty if it is set later.
default assumed := "default-scheduler"

assumed := "" if request.kind == "TrainingRuntime"

assumed := request.object_get(request.spec, "schedulerName", "") if request.api_group == "batch.volcano.sh"
