package protocol

// Limits bound what one message may make the decoder do. Everything that comes
// from a broker is untrusted.
type Limits struct {
	// Envelope is the longest envelope in bytes.
	Envelope int
	// Body is the longest body in bytes after decompression.
	Body int
	// Depth is how deeply lists and maps may be nested.
	Depth int
	// Items is how many values one document may hold in all. A map counts for nine,
	// because of the memory it takes.
	Items int
}

// DefaultLimits are generous for task messages and small for a bomb: 100 MiB of
// envelope (KubeMQ's own limit), 64 MiB of body, 200 levels, 5,000,000 values.
func DefaultLimits() Limits {
	return Limits{Envelope: 100 << 20, Body: 64 << 20, Depth: 200, Items: 5_000_000}
}
