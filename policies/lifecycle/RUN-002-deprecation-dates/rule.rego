package trainyard.rules.run_002

import data.trainyard.lib.request
import rego.v1

date := `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`

deprecated if request.map(request.metadata, "labels")["trainer.kubeflow.org/support"] == "deprecated"

annotation(name) := request.text(request.map(request.metadata, "annotations"), sprintf("trainyard.dev/%s", [name]))

path(name) := sprintf("metadata.annotations[trainyard.dev/%s]", [name])

violation contains {"path": path(name), "message": sprintf("%s is not a date (YYYY-MM-DD)", [name])} if {
	deprecated
	some name in ["deprecated-since", "remove-after"]
	not regex.match(date, annotation(name))
}

violation contains {"path": path("remove-after"), "message": "remove-after is not later than deprecated-since"} if {
	deprecated
	regex.match(date, annotation("deprecated-since"))
	regex.match(date, annotation("remove-after"))
	annotation("remove-after") <= annotation("deprecated-since")
}
