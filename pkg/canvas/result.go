package canvas

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lovage-project/lovage/pkg/protocol"
)

// result is Celery's AsyncResult or GroupResult, as far as it is written down.
type result struct {
	id string
	// parent is the result of the step before, nil for none.
	parent *result
	// members are those of a group.
	members []*result
	group   bool
}

// tuple is the form in children and in the arguments of a join:
// [[id, parent], null], and for a group [[id, parent], [member…]].
func (r *result) tuple() any {
	var parent any
	if r.parent != nil {
		parent = r.parent.tuple()
	}
	if !r.group {
		return []any{[]any{r.id, parent}, nil}
	}
	members := make([]any, len(r.members))
	for i, member := range r.members {
		members[i] = member.tuple()
	}
	return []any{[]any{r.id, parent}, members}
}

// at is the path of a member.
func at(path string, index int) string { return path + "." + strconv.Itoa(index) }

// maxNesting bounds groups in chains in groups: each level is walked once for its
// ids and once to send it, so that the work grows with the square of the depth.
const maxNesting = 20

func checkNesting(path string) error {
	if strings.Count(path, ".") <= maxNesting {
		return nil
	}
	return &protocol.InvalidTaskError{Reason: fmt.Sprintf("a signature is nested in more than %d groups and chains", maxNesting)}
}
