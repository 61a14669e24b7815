// Package kubemqwire holds what the KubeMQ client and the embedded broker share below
// the generated messages: how gRPC encodes them (codec.go), and what the embedded
// broker's answers say beyond KubeMQ's (place.go).
package kubemqwire
