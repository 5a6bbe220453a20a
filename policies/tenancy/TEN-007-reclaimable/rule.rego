package trainyard.rules.ten_007

import data.trainyard.lib.places
import rego.v1

key := "volcano.sh/preemptable"

violation contains {"path": path, "message": "a tenant's pod may not keep what it borrows"} if {
	some entry in places.metadatas
	some field, entries in entry.metadata
	value := entries[key]
	value != null
	not value in ["1", "t", "T", "true", "TRUE", "True"]
	path := sprintf("%s.%s[%s]", [entry.path, field, key])
}
