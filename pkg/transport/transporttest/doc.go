// Package transporttest is the conformance suite that every transport passes: what
// the engine relies on, as tests. What a broker can't do by its Capabilities is
// skipped, with the reason in the output.
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) transport.Transport { ... })
//	}
//
// # The pitfalls of KubeMQ
//
// What hurt users of KubeMQ's server of 2023 (docs/protocol.md §11 to §16) has numbers.
// Each is shown by tests that bear its number. Those of the suite are methods of suite;
// they run against the embedded broker as it is and with all quirks of that server. The
// others are in transport/kubemq, and run against what they name.
//
//	T-K1   no hostages: noHostages
//	T-K2   no empty polls while work is queued: BenchmarkWork, a figure (docs/decisions/0004-kubemq-strategies.md)
//	T-K3   acks are not delayed by an idle poll: ackIsPrompt
//	T-K4   a settlement is proven before it counts: ack, TestAckCountsWhenProven
//	T-K5   attempts and dead letters are ours: attemptsTravel, requeue, deadLetter, TestConfigIsChecked
//	T-K6   a message id for each send: twoDelayedOfOneTask, TestMessageIDs
//	T-K7   delays in hops, and counted: delayBeyondMaximum, requeueBeyondMaximum, TestMaxDelayIsLearnt, TestDelayedMessagesAreCounted
//	T-K8   no double work without a failure: noDoubleWork
//	T-K9   names as kubemq-celery's: TestChannelNameIsKubemqCelerys, invalidNames
//	T-K10  no delay beyond the retention: TestDelaysEndBeforeTheRetention
package transporttest
