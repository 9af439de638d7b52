package credentials

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// A Destination identifies where a secret is sent: the provider, its host, and every
// setting that is part of its address, by field.
type Destination map[string]string

// differs returns the first field in which two destinations differ, or "".
func (d Destination) differs(from Destination) string {
	for _, field := range slices.Sorted(maps.Keys(d)) {
		if d[field] != from[field] {
			return field
		}
	}
	for _, field := range slices.Sorted(maps.Keys(from)) {
		if d[field] != from[field] {
			return field
		}
	}
	return ""
}

// Key returns a string that is equal for equal destinations.
func (d Destination) Key() string {
	var b strings.Builder
	for _, field := range slices.Sorted(maps.Keys(d)) {
		if v := d[field]; v != "" {
			fmt.Fprintf(&b, "%q=%q,", field, v)
		}
	}
	return b.String()
}

// A Bound is a secret of a stored resource, with the destination that it was saved for.
type Bound struct {
	Field  string // its path in the resource: targets.0.api_key
	Name   string // the last element of the path
	Secret Secret
	For    Destination
	// Shown is how the control plane shows it; "": as its Hint.
	Shown string
}

func (b *Bound) hint() string { return cmp.Or(b.Shown, b.Secret.Hint()) }

// A Binding holds all secrets of a stored resource. Changes of a resource check each secret
// that is kept against it, so that no secret is sent anywhere it was not saved for. The
// zero Binding is empty.
type Binding struct {
	fields map[string]Bound
	shown  map[[2]string][]Bound // by name and hint
	at     map[[3]string][]Bound // and by destination
}

// Add adds a secret of the resource.
func (b *Binding) Add(s Bound) {
	if s.Secret.Empty() {
		return
	}
	if b.fields == nil {
		b.fields, b.shown, b.at = make(map[string]Bound), make(map[[2]string][]Bound), make(map[[3]string][]Bound)
	}
	hint := s.hint()
	shown, at := [2]string{s.Name, hint}, [3]string{s.Name, hint, s.For.Key()}
	b.fields[s.Field] = s
	b.shown[shown] = append(b.shown[shown], s)
	for _, other := range b.at[at] {
		if other.Secret.Equal(s.Secret) {
			return
		}
	}
	b.at[at] = append(b.at[at], s)
}

// A BindingError says why a stored secret cannot be kept.
type BindingError struct {
	Field string // the field that would change the destination, or the secret's own
	Why   string
}

func (e *BindingError) Error() string { return e.Field + ": " + e.Why }

// Take returns the secret for the field called name, given what a change sends for it and
// its destination after the change. A masked value stands for a stored secret with this
// name and destination, wherever it was in the resource. An error is a *BindingError.
func (b *Binding) Take(field, name, sent string, to Destination) (Secret, error) {
	if !strings.Contains(sent, Masked) {
		return NewSecret(sent), nil
	}
	was, stayed := b.fields[field]
	stayed = stayed && was.Name == name && was.hint() == sent
	if stayed && to.differs(was.For) == "" {
		return was.Secret, nil
	}
	shown := b.shown[[2]string{name, sent}]
	switch found := b.at[[3]string{name, sent, to.Key()}]; {
	case len(found) == 1:
		return found[0].Secret, nil
	case len(found) > 1:
		return Secret{}, &BindingError{field, "a masked value that stands for more than one stored credential; send the credential itself"}
	case stayed:
		return Secret{}, leaves(to.differs(was.For), field)
	case len(shown) > 0:
		return Secret{}, leaves(to.differs(shown[0].For), field)
	}
	return Secret{}, &BindingError{field, "a masked value that stands for no stored credential; send the credential itself"}
}

// Keep returns an error if a change does not send the secret at field but changes its
// destination. The error is a *BindingError.
func (b *Binding) Keep(field string, to Destination) error {
	if was, ok := b.fields[field]; ok {
		if differs := to.differs(was.For); differs != "" {
			return leaves(differs, field)
		}
	}
	return nil
}

// KeepAll is Keep for every secret but those at except, or below a field there that ends in a
// dot.
func (b *Binding) KeepAll(to Destination, except ...string) error {
	for _, field := range slices.Sorted(maps.Keys(b.fields)) {
		if !slices.ContainsFunc(except, func(e string) bool { return field == e || strings.HasSuffix(e, ".") && strings.HasPrefix(field, e) }) {
			if err := b.Keep(field, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func leaves(differs, field string) error {
	return &BindingError{differs, "send " + field + " along; a stored credential is not sent to where it was not saved for"}
}

// Refuse makes the error for a field that is refused, by the name that the field has there. What the
// control plane and documents of it check alike takes one, because both have names of their own.
type Refuse = func(field, format string, args ...any) error

// Guard checks the URL of a host that the operator did not choose.
type Guard interface {
	Check(host string) (*url.URL, error)
}
