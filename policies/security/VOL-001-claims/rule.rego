package trainyard.rules.vol_001

import data.trainyard.lib.claim_fields
import data.trainyard.lib.claims
import data.trainyard.lib.environment
import data.trainyard.lib.request
import data.trainyard.lib.users
import rego.v1

violation contains {"path": path, "message": sprintf("claims of this namespace cannot name volume \"%v\"", [name])} if {
	not trusted
	some path, name in claim_fields.volumes
	not listed(name)
}

violation contains {"path": sprintf("%s.dataSourceRef.namespace", [entry.spec]), "message": message} if {
	not claim_fields.updates_claim
	some entry in claims.all
	namespace := request.text(request.map(request.map(entry.claim, "spec"), "dataSourceRef"), "namespace")
	not namespace in ["", request.namespace]
	message := sprintf("namespace \"%v\" of the data source is not the claim's own", [namespace])
}

violation contains {"path": path, "message": sprintf("storage class \"%v\" is not allowed", [name])} if {
	not trusted
	some path, name in claim_fields.classes
	not name in request.parameter("VOL-001", "storageClasses")
}

violation contains {"path": path, "message": sprintf("volume attributes class \"%v\" is not allowed", [name])} if {
	not trusted
	some path, name in claim_fields.attributes_classes
	not name in request.parameter("VOL-001", "volumeAttributesClasses")
}

violation contains {"path": sprintf("%s.selector", [entry.spec]), "message": message} if {
	not claim_fields.updates_claim
	not trusted
	not "*" in request.parameter("VOL-001", "volumes")
	some entry in claims.all
	request.object_get(request.map(entry.claim, "spec"), "selector", null) != null
	message := sprintf("selector \"%s\" can bind the volume of another tenant", [claim_fields.selected(entry.claim)])
}

violation contains {"path": path, "message": sprintf("only the cluster sets annotation %s", [key])} if {
	not trusted
	some path, key in claim_fields.of_cluster
}

listed(name) if {
	some pattern in request.parameter("VOL-001", "volumes")
	environment.matches(name, replace(pattern, "{namespace}", request.namespace))
}

# The platform binds claims, and the platform team creates them.
trusted if {
	request.kind == "PersistentVolumeClaim"
	users.is_platform("VOL-001")
	not users.from_template
}
