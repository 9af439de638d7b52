package credentials

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
)

// ErrWrongKey means that a sealed value was sealed with another key, for another
// purpose, or has been altered.
var ErrWrongKey = errors.New("sealed with another encryption key, or altered")

// A Box seals secrets for storage: XChaCha20-Poly1305 with a separate data key for each
// purpose. Data keys are random and sealed with the master key, so that the master key can
// be changed without resealing everything else.
type Box struct {
	aead    cipher.AEAD
	random  io.Reader
	purpose string
}

const dataKeyPurpose = "data-key"

// NewMasterBox returns the box of the master key, which is the value of the encryption_key
// option or the contents of its file. It only seals data keys.
func NewMasterBox(random io.Reader, master Secret) (*Box, error) {
	key, err := hkdf.Key(sha256.New, []byte(master.Reveal()), nil, "gw master key", chacha20poly1305.KeySize)
	if err != nil {
		return nil, err
	}
	return newBox(random, key, dataKeyPurpose)
}

func newBox(random io.Reader, key []byte, purpose string) (*Box, error) {
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	return &Box{aead, random, purpose}, nil
}

// NewDataKey creates a data key for a purpose and returns it sealed.
func (b *Box) NewDataKey(purpose string) ([]byte, error) {
	key := make([]byte, chacha20poly1305.KeySize)
	if _, err := io.ReadFull(b.random, key); err != nil {
		return nil, err
	}
	return b.seal(key, purpose)
}

// Open returns the box of a data key that NewDataKey sealed for purpose.
func (b *Box) Open(purpose string, sealed []byte) (*Box, error) {
	key, err := b.unseal(sealed, purpose)
	if err != nil {
		return nil, err
	}
	return newBox(b.random, key, purpose)
}

// Seal seals secret for the item named id; only Unseal with the same id opens it,
// so that a sealed value cannot be moved to another item.
func (b *Box) Seal(secret Secret, id string) ([]byte, error) {
	return b.seal([]byte(secret.Reveal()), id)
}

// Unseal returns what Seal sealed, or ErrWrongKey.
func (b *Box) Unseal(sealed []byte, id string) (Secret, error) {
	plain, err := b.unseal(sealed, id)
	if err != nil {
		return Secret{}, err
	}
	return NewSecret(string(plain)), nil
}

func (b *Box) seal(plain []byte, id string) ([]byte, error) {
	nonce := make([]byte, b.aead.NonceSize(), b.aead.NonceSize()+len(plain)+b.aead.Overhead())
	if _, err := io.ReadFull(b.random, nonce); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return b.aead.Seal(nonce, nonce, plain, []byte(b.purpose+"\x00"+id)), nil
}

func (b *Box) unseal(sealed []byte, id string) ([]byte, error) {
	n := b.aead.NonceSize()
	if len(sealed) < n {
		return nil, ErrWrongKey
	}
	plain, err := b.aead.Open(nil, sealed[:n], sealed[n:], []byte(b.purpose+"\x00"+id))
	if err != nil {
		return nil, ErrWrongKey
	}
	return plain, nil
}
