package trainyard.rules.run_002

import data.trainyard.lib.request
import rego.v1

date := `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`

deprecated if request.map(request.metadata, "labels")["trainer.kubeflow.org/support"] == "deprecated"

annotation(name) := request.text(request.map(request.metadata, "annotations"), sprintf("trainyard.dev/%s", [name]))

path(name) := sprintf("metadata.annotations[trainyard.dev/%s]", [name])

violation contains {"path": path("deprecated-since"), "message": sprintf("deprecated-since \"%s\" is not a date (YYYY-MM-DD)", [begin])} if {
	deprecated
	begin := annotation("deprecated-since")
	not regex.match(date, begin)
}

violation contains {"path": path("remove-after"), "message": sprintf("remove-after \"%s\" is not a date (YYYY-MM-DD)", [end])} if {
	deprecated
	end := annotation("remove-after")
	not regex.match(date, end)
}

violation contains {"path": path("remove-after"), "message": message} if {
	deprecated
	regex.match(date, annotation("deprecated-since"))
	regex.match(date, annotation("remove-after"))
	annotation("remove-after") <= annotation("deprecated-since")
	dates := [annotation("remove-after"), annotation("deprecated-since")]
	message := sprintf("remove-after %s is not later than deprecated-since %s", dates)
}
