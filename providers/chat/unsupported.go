package chat

import (
	"errors"
	"slices"
	"strconv"

	"github.com/caddy-gw/gateway/providers/jsonscan"
)

// Unsupported is the error for a part of a request that a provider's API cannot express.
// Param names the part, such as messages[2]. Code is the error's; default:
// unsupported_parameter.
type Unsupported struct{ Param, Message, Code string }

func (u *Unsupported) Error() string { return u.Message }

// Refused makes an [*Unsupported] of the error of a reader that was given too many elements, and
// returns others as they are.
func Refused(err error) error {
	if limit := new(jsonscan.LimitError); errors.As(err, &limit) {
		return &Unsupported{Param: limit.Path, Code: "array_above_max_length", Message: "Invalid request body: '" + limit.Path + "' is one too many of " + limit.Error()}
	}
	return err
}

// Objects reads an array, and visits its elements, which are objects. null stands for none. Others
// end the reading with an [*Unsupported], before anything is made of them.
func Objects(r *jsonscan.Reader, visit func()) { elements(r, "an object", visit) }

// Contents is like Objects, for arrays whose elements may be strings, too.
func Contents(r *jsonscan.Reader, visit func()) {
	elements(r, "an object or a string", visit, jsonscan.String)
}

func elements(r *jsonscan.Reader, expected string, visit func(), others ...jsonscan.Kind) {
	r.Array(func() {
		switch kind := r.Kind(); {
		case kind == jsonscan.Null, kind == jsonscan.None: // the reader says what is wrong
		case kind == jsonscan.Object, slices.Contains(others, kind):
			visit()
		default:
			at := r.Path()
			r.Fail(&Unsupported{Param: at, Code: "invalid_type", Message: "Invalid type for '" + at + "': expected " + expected + ", but got one of type " + kind.String() + "."})
		}
	})
}

// OneChoice returns an [*Unsupported] if the request is for several choices. It is for providers
// that give one: what is dropped would be missed.
func (r *Request) OneChoice() error {
	n, err := strconv.ParseFloat(string(r.N), 64)
	if one := err != nil || n <= 1; one { // what is no number is the provider's to refuse
		return nil
	}
	return &Unsupported{Param: "n", Message: "n must be 1: the provider gives one choice per call. Make several calls, or leave n out (drop_params of a config)"}
}
