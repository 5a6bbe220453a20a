package trainyard.lib.quantities

import rego.v1

# Quantities as parsed by Kubernetes: 8, "8", "8 ", "8000m", "8e0", "1Ki"; undefined if invalid, and if they have more than
# 64 characters or the exponent more than two digits beside leading zeros: Kubernetes would calculate with all digits of
# the amount, and a number of more than 308 digits is an error here.

pattern := `^([+-]?)([0-9]*)\.?([0-9]*)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?0*[0-9]{1,2}))?$`

multipliers := {
	"": 1, "n": 1, "u": 1, "m": 1, "k": 1000, "M": 1000000, "G": 1000000000, "T": 1000000000000,
	"P": 1000000000000000, "E": 1000000000000000000, "Ki": 1024, "Mi": 1048576, "Gi": 1073741824,
	"Ti": 1099511627776, "Pi": 1125899906842624, "Ei": 1152921504606846976,
}

longest := 64

divisors := {"n": 1000000000, "u": 1000000, "m": 1000}

amount(value) := value if is_number(value)

amount(value) := ((sign * size) * multipliers[parts[4]]) / object.get(divisors, parts[4], 1) if {
	is_string(value)
	count(value) <= longest
	parts := regex.find_all_string_submatch_n(pattern, trim_space(value), 1)[0]
	concat("", [parts[2], parts[3]]) != ""
	sign := {"": 1, "+": 1, "-": -1}[parts[1]]
	size := to_number(sprintf("%s.%s0e%s", [parts[2], parts[3], exponent(parts[5])]))
}

equals(value, size) if amount(value) == size

exponent(text) := "0" if text == ""

exponent(text) := text if text != ""
