package manifest

import (
	"encoding/hex"
	"strconv"

	"github.com/caddy-gw/gateway/credentials"
)

// writeDigest puts the digest of a secret that only its owner has into an object.
func (x *session) writeDigest(of, name string, digest *[32]byte, f *form) {
	f.drop(name)
	if digest != nil {
		f.set(name, x.seal(of, hex.EncodeToString(digest[:])))
	}
}

// readDigest takes a digest out of an object; nil: there is none.
func (x *session) readDigest(of, name string, f *form, at string) (*[32]byte, error) {
	sent := f.take(name)
	if !sent.Exists() {
		return nil, nil
	}
	text, err := x.open(of, at+"."+name, sent.Str, nil)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(text)
	if digest := new([32]byte); err == nil && copy(digest[:], raw) == len(digest) && len(raw) == len(digest) {
		return digest, nil
	}
	return nil, wrong(at+"."+name, "expected a sealed SHA-256 in hex")
}

func writeAPIKey(x *session, k *credentials.APIKey, f *form) error {
	of := "api_keys/" + k.ID
	x.writeDigest(of, "digest", (*[32]byte)(&k.Digest), f)
	x.writeDigest(of, "previous", (*[32]byte)(k.Previous), f)
	return nil
}

func readAPIKey(x *session, f *form, old *credentials.APIKey, at string) (func(*credentials.APIKey) error, error) {
	if owner := f.take("owner"); owner.Bool() || old != nil && old.Owner {
		return nil, wrong(at+".owner", "an owner's key is that of its gateway, and in no document; remove it from this one")
	}
	of := "api_keys/" + f.get("id").Str
	digest, err := x.readDigest(of, "digest", f, at)
	if err != nil {
		return nil, err
	}
	previous, err := x.readDigest(of, "previous", f, at)
	if err != nil {
		return nil, err
	}
	return func(k *credentials.APIKey) error {
		switch {
		case old != nil: // its secret may have been rotated since
			k.Digest, k.Previous, k.PreviousUntil, k.Hint, k.Unclaimed = old.Digest, old.Previous, old.PreviousUntil, old.Hint, old.Unclaimed
			k.NotifiedExpiring, k.NotifiedRotating, k.NotifiedExpired = old.NotifiedExpiring, old.NotifiedRotating, old.NotifiedExpired
			if k.Rotation != nil && old.Rotation != nil && k.Rotation.Period == old.Rotation.Period && k.Rotation.Days == old.Rotation.Days {
				k.Rotation.NextAt = old.Rotation.NextAt
			}
			return nil
		case digest == nil:
			return wrong(at+".digest", "required for a key that the store does not have; caddy gw key create makes new keys")
		}
		k.Digest, k.Previous = *digest, (*credentials.Digest)(previous)
		return nil
	}, nil
}

// uniqueOfKey has the digests by which a key is found.
func uniqueOfKey(k *credentials.APIKey) []string {
	all := []string{hex.EncodeToString(k.Digest[:])}
	if k.Previous != nil {
		all = append(all, hex.EncodeToString(k.Previous[:]))
	}
	return all
}

func checkAPIKey(_ *session, k, _ *credentials.APIKey) error {
	if k.Kind != credentials.OrganisationService && !k.Kind.Workspace() {
		return wrong("kind", "expected %s, %s or %s", credentials.OrganisationService, credentials.WorkspaceService, credentials.WorkspaceUser)
	}
	if k.Kind.Workspace() != (k.WorkspaceID != "") {
		return wrong("workspace_id", "expected one for a key of a workspace, and none for one of the organisation")
	}
	for i, scope := range k.Scopes {
		if !k.Kind.MayHold(scope) {
			return wrong("scopes["+strconv.Itoa(i)+"]", "a key of kind %s cannot hold %q", k.Kind, credentials.Clip(scope))
		}
	}
	if r := k.Rotation; r != nil && (r.Period != "" || r.Days != 0) {
		checked := *r
		checked.NextAt = nil
		if err := checked.Begin(k.CreatedAt); err != nil {
			return wrong("rotation", "%v", err)
		}
	}
	return nil
}
