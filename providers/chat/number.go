package chat

import "strconv"

// AtMost returns a number, or the maximum if it is larger.
func AtMost(number Raw, most int) Raw {
	if f, err := strconv.ParseFloat(string(number), 64); err != nil || f <= float64(most) {
		return number
	}
	return Raw(strconv.Itoa(most))
}
