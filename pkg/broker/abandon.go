package broker

// abandon puts back deliveries whose client went, or let their time pass, without
// settling them: a nack, so that a message which ends its workers is dead-lettered
// in the end. Deliveries that end because the broker stops go back as they were,
// for that is not their fault.
func (qs *queues) abandon(deliveries []*delivery) *commit {
	if !qs.stopping.Load() {
		if done, err := qs.nack(deliveries); err == nil {
			return done
		}
	}
	qs.release(deliveries)
	return nil
}
