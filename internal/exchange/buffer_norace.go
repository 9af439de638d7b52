//go:build !race

package exchange

const overwritesReleased = false

func overwrite([]byte) {}
