package kubemq

import (
	"time"

	"github.com/lovage-project/lovage/pkg/transport"
)

var _ transport.Dated = (*delivery)(nil)

// Queued is transport.Dated's. The server notes when a copy enters its queue, which
// is after a delay.
func (d *delivery) Queued() time.Time {
	if at := d.message.Attributes.GetTimestamp(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
