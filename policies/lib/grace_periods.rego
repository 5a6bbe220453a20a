package trainyard.lib.grace_periods

import data.trainyard.lib.pod_templates
import data.trainyard.lib.request
import rego.v1

# Grace periods of pods and of their probes: entries {path, seconds} with the path of the pod or of the probe.
of_pods contains {"path": pod.specPath, "seconds": seconds} if {
	some pod in pod_templates.pods
	seconds := pod.spec.terminationGracePeriodSeconds
}

of_pods contains {"path": sprintf("%s.%s", [entry.path, probe]), "seconds": seconds} if {
	some entry in pod_templates.containers
	some probe in ["livenessProbe", "startupProbe"]
	seconds := entry.container[probe].terminationGracePeriodSeconds
}

# Grace periods that a deletion or an eviction names: entries {path, seconds}. A deletion may name the pod's own.
of_deletion contains {"path": "options.gracePeriodSeconds", "seconds": seconds} if {
	seconds := request.options.gracePeriodSeconds
	not own_period_reaches(seconds)
}

own_period_reaches(seconds) if seconds <= request.spec.terminationGracePeriodSeconds

of_deletion contains {"path": "deleteOptions.gracePeriodSeconds", "seconds": seconds} if {
	seconds := request.object.deleteOptions.gracePeriodSeconds
}
