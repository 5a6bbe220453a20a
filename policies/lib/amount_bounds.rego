package trainyard.lib.amount_bounds

import data.trainyard.lib.quantities
import rego.v1

# Whether an amount is no quantity, or too long or too large.

longest := 32

largest := 8000000000000000

largest_together := {"memory": 8000000000000000000, "other": largest}

exceeds(amount, _) if {
	is_string(amount)
	count(amount) > longest
}

exceeds(amount, _) if {
	is_string(amount)
	regex.match(`[eE][+-]?0*(19|[2-9][0-9]|[1-9][0-9]{2})`, amount)
}

exceeds(amount, _) if {
	amount != null
	not quantities.amount(amount)
}

exceeds(amount, limit) if abs(quantities.amount(amount)) > limit
