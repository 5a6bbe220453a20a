package trainyard.rules.ten_007

import data.trainyard.lib.pod_templates
import rego.v1

key := "volcano.sh/preemptable"

violation contains {"path": path, "message": "volcano.sh/preemptable must be true or unset"} if {
	some entry in pod_templates.metadatas
	some field, entries in entry.metadata
	value := entries[key]
	value != null
	not value in ["1", "t", "T", "true", "TRUE", "True"]
	path := sprintf("%s.%s[%s]", [entry.path, field, key])
}
