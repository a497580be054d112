//go:build !linux

package e2e_test

// smallDisk is only known on Linux.
func smallDisk() bool { return false }
