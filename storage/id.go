package storage

import (
	"fmt"
	"io"

	"github.com/google/uuid"
)

// NewID generates the id of a row: a UUID of version 7, so that ids are ordered by time of
// creation.
func NewID(random io.Reader) string {
	id, err := uuid.NewV7FromReader(random)
	if err != nil {
		panic(fmt.Sprintf("no randomness: %v", err)) // crypto/rand never fails
	}
	return id.String()
}
