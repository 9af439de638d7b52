//go:build !linux

package app

// unmapProgram does nothing: elsewhere, the system decides alone which pages of a program it keeps.
func unmapProgram() {}
