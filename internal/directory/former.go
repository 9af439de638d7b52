package directory

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/caddy-gw/gateway/storage"
)

// maxFormer bounds the users who are remembered after they were removed, because all are in memory.
const maxFormer = 2 * MaxUsers

// A former user was removed from the organisation. Tokens of an identity provider may name the user for as long as
// that has not heard of it, and must not be taken for those of a program. It has no address, only a digest of it.
type former struct {
	ID    string `json:"id"`
	Email string `json:"email"`
}

const byDigest = "email"

func (d *Directory) openFormer(db *storage.DB) {
	d.former = storage.NewCached(db, storage.NewCollection("former-user", func(f *former) string { return f.ID },
		storage.Index[*former]{Name: byDigest, Keys: func(f *former) []string { return []string{f.Email} }},
		storage.Index[*former]{Name: inAll, Counted: true, Max: maxFormer, Rows: "removed users", Keys: func(*former) []string { return []string{""} }}))
}

func digestOf(email string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(email)))
	return hex.EncodeToString(sum[:])
}

// IsFormer reports whether an id or an address is that of a user who was removed.
func (d *Directory) IsFormer(name string) bool {
	if _, ok := d.former.Get(strings.ToLower(name)); ok {
		return true
	}
	return len(d.former.Where(byDigest, digestOf(name))) > 0
}

// remember remembers a user who is removed.
func (d *Directory) remember(tx *storage.Txn, u *User) error {
	return d.former.Put(tx, &former{ID: u.ID, Email: digestOf(u.Email)})
}

// returned forgets users who were removed and had the address of one who is there again.
func (d *Directory) returned(tx *storage.Txn, u *User) error {
	for _, f := range d.former.Where(byDigest, digestOf(u.Email)) {
		if err := d.former.Delete(tx, f.ID); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}
