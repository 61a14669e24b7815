package command

// heapFloor is memory that nobody uses: no page of it is touched, so it takes none.
// The garbage collector runs when the heap has doubled; a worker's is a few megabytes,
// which it fills dozens of times a second under load. With the floor it may collect
// that much garbage more before it runs. A percentage (GOGC) would do the same to a
// small heap, and let that of an embedded broker with a large backlog grow without
// need.
func heapFloor() []byte { return make([]byte, 8<<20) }
