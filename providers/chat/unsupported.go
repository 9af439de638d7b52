package chat

// Unsupported is that a provider has no words for a part of a request. Param names the
// part, such as messages[2].
type Unsupported struct{ Param, Message string }

func (u *Unsupported) Error() string { return u.Message }
