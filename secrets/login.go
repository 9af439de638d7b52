package secrets

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-gw/gateway/credentials"
)

// CheckReference checks the path and the auth_config of a reference of a manager, and returns the
// auth_config that is stored. A credential that was not sent again has to go where the stored one went,
// and one that is masked stands for that. guard decides about hosts. Fields of refused references are
// secret_path, and auth_config with those in it.
func CheckReference(m Manager, guard Guard, r *credentials.SecretReference, stored, auth map[string]string, sent func(field string) bool, refuse credentials.Refuse) (map[string]string, error) {
	login := m.Login()
	fields, err := login.fieldsOf(auth[login.Mode], refuse)
	if err != nil {
		return nil, err
	}
	bound, to := login.bound(r, stored), login.destination(r, auth)
	checked := make(map[string]string, len(auth))
	if login.Mode != "" {
		checked[login.Mode] = auth[login.Mode]
	}
	for _, f := range fields {
		value, named := auth[f.Name], AuthField(f.Name)
		if f.Secret && value != "" {
			secret := credentials.NewSecret(value)
			var err error
			if sent(f.Name) {
				secret, err = bound.Take(named, f.Name, value, to)
			} else {
				err = bound.Keep(named, to)
			}
			if refused := new(credentials.BindingError); errors.As(err, &refused) {
				return nil, refuse(refused.Field, "%s", refused.Why)
			}
			value = secret.Reveal()
		}
		switch {
		case value != "":
			checked[f.Name] = value
		case f.Required:
			return nil, refuse(named, "required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(auth)) {
		if _, ok := checked[name]; !ok && sent(name) && auth[name] != "" {
			return nil, refuse(AuthField(credentials.Clip(name)), "unknown field, expected %s", strings.Join(login.names(fields), ", "))
		}
	}
	err = m.Check(&Reference{Path: r.Path, Auth: checked}, guard)
	var field *FieldError
	var host *credentials.HostError
	switch {
	case errors.As(err, &field):
		return nil, refuse(field.Field, "%s", field.Message)
	case errors.As(err, &host):
		return nil, refuse("auth_config", "%s", host.Error())
	}
	return checked, err
}

// fieldsOf returns the fields of a way to log in.
func (l *Login) fieldsOf(way string, refuse credentials.Refuse) ([]Field, error) {
	fields, ok := l.Ways[way]
	if ok {
		return fields, nil
	}
	field, expected := AuthField(l.Mode), strings.Join(slices.Sorted(maps.Keys(l.Ways)), ", ")
	if why, known := l.Unavailable[way]; known {
		return nil, refuse(field, "%s: %s; expected one of %s", way, why, expected)
	}
	return nil, refuse(field, "expected one of %s", expected)
}

func (l *Login) names(fields []Field) (names []string) {
	if l.Mode != "" {
		names = append(names, l.Mode)
	}
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

// destination is where the credentials of an auth_config go.
func (l *Login) destination(r *credentials.SecretReference, auth map[string]string) credentials.Destination {
	to := credentials.Destination{"manager_type": r.Manager}
	for _, f := range l.Ways[auth[l.Mode]] {
		if v := auth[f.Name]; f.Place && v != "" {
			to[AuthField(f.Name)] = v
		}
	}
	return to
}

// bound has the credentials of a stored auth_config.
func (l *Login) bound(r *credentials.SecretReference, auth map[string]string) *credentials.Binding {
	bound, to := new(credentials.Binding), l.destination(r, auth)
	for _, f := range l.Ways[auth[l.Mode]] {
		if f.Secret {
			bound.Add(credentials.Bound{Field: AuthField(f.Name), Name: f.Name, Secret: credentials.NewSecret(auth[f.Name]), For: to})
		}
	}
	return bound
}
