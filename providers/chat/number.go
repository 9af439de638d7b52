package chat

import "strconv"

// AtMost returns a number, or the maximum if it is larger.
func AtMost(number Raw, most float64) Raw {
	if f, err := strconv.ParseFloat(string(number), 64); err != nil || f <= most {
		return number
	}
	return Raw(strconv.FormatFloat(most, 'g', -1, 64))
}
