// Package gocelery lets programs written for github.com/gocelery/gocelery run on
// this worker and publish to its broker.
//
// Register takes the functions and CeleryTask values that were given to
// gocelery's own Register. Broker and Backend are what gocelery's client is made
// of, so that Delay, DelayKwargs and AsyncResult.Get go on working:
//
//	client, err := gocelery.NewCeleryClient(
//		&lovage.Broker{Publisher: transport},
//		&lovage.Backend{Results: backend},
//		0,
//	)
//
// The client sends messages of protocol 1, which Python workers read too.
package gocelery
