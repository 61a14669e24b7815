// Package transporttest is the conformance suite that every transport passes: what
// the engine relies on, as tests. What a broker can't do by its Capabilities is
// skipped, with the reason in the output.
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) transport.Transport { ... })
//	}
package transporttest
