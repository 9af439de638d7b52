package chat

// Unsupported is the error for a part of a request that a provider's API cannot express.
// Param names the part, such as messages[2]. Code is the error's; default:
// unsupported_parameter.
type Unsupported struct{ Param, Message, Code string }

func (u *Unsupported) Error() string { return u.Message }
