package chat

import "strconv"

// Unsupported is the error for a part of a request that a provider's API cannot express.
// Param names the part, such as messages[2]. Code is the error's; default:
// unsupported_parameter.
type Unsupported struct{ Param, Message, Code string }

func (u *Unsupported) Error() string { return u.Message }

// OneChoice returns an [*Unsupported] if the request is for several choices. It is for providers
// that give one: what is dropped would be missed.
func (r *Request) OneChoice() error {
	n, err := strconv.ParseFloat(string(r.N), 64)
	if one := err != nil || n <= 1; one { // what is no number is the provider's to refuse
		return nil
	}
	return &Unsupported{Param: "n", Message: "n must be 1: the provider gives one choice per call. Make several calls, or leave n out (drop_params of a config)"}
}
