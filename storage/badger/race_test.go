//go:build race

package badger

func init() { underRace = true }
