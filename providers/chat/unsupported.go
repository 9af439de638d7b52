package chat

// Unsupported is that a provider has no words for a part of a request. Param names the
// part, such as messages[2]. Code is the error's; default: unsupported_parameter.
type Unsupported struct{ Param, Message, Code string }

func (u *Unsupported) Error() string { return u.Message }
