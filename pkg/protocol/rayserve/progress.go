package rayserve

import (
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// ProgressSuffix follows the queue's name in the channel that progress is told on.
const ProgressSuffix = ".progress"

// Progress is how far a task has come, an event on the channel <queue>.progress.
type Progress struct {
	// TaskID is the task's id.
	TaskID string
	// Pct is the percentage. The adapter bounds it to nothing; it is not NaN or infinite.
	Pct float64
	// Detail is a text for people, maybe empty.
	Detail string
}

// EncodeProgress writes the body of the event and the tags beside it, task_id and pct:
// a whole number there, cut as by Python's int(). NaN and the infinities are a
// *protocol.EncodeError.
func EncodeProgress(p Progress) (body []byte, tags map[string]string, err error) {
	if math.IsNaN(p.Pct) || math.IsInf(p.Pct, 0) {
		return nil, nil, &protocol.EncodeError{Path: "pct", Err: fmt.Errorf("%v is not a percentage", p.Pct)}
	}
	body, err = encodeObject(field{"task_id", p.TaskID}, field{"pct", p.Pct}, field{"detail", p.Detail})
	if err != nil {
		return nil, nil, err
	}
	whole := strconv.FormatFloat(math.Trunc(p.Pct)+0, 'f', 0, 64) // + 0: there is no -0 in Python's int
	return body, map[string]string{"task_id": p.TaskID, "pct": whole}, nil
}

// DecodeProgress reads the body of an event, which says all that the tags say. Every
// error is a *MalformedError: as those of DecodeResponse, and for what has no task_id
// or no number as pct.
func DecodeProgress(body []byte, limits protocol.Limits) (Progress, error) {
	fields, malformed := decodeObject(body, limits)
	if malformed != nil {
		return Progress{}, malformed
	}
	p := Progress{TaskID: text(fields, "task_id"), Detail: text(fields, "detail")}
	if p.TaskID == "" {
		return Progress{}, &MalformedError{Reason: "no task_id"}
	}
	switch pct := fields["pct"].(type) {
	case int64:
		p.Pct = float64(pct)
	case float64:
		p.Pct = pct
	case *big.Int:
		p.Pct, _ = new(big.Float).SetInt(pct).Float64()
	default:
		return Progress{}, &MalformedError{Reason: "pct is " + kind(pct) + ", not a number", ID: p.TaskID}
	}
	if math.IsNaN(p.Pct) || math.IsInf(p.Pct, 0) {
		return Progress{}, &MalformedError{Reason: fmt.Sprintf("pct is %v", p.Pct), ID: p.TaskID}
	}
	return p, nil
}
