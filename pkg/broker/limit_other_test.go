//go:build !linux

package broker

func limitFiles() {}
