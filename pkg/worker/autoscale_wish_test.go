package worker

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAutoscaleWish(t *testing.T) {
	for name, c := range map[string]struct {
		bounds Autoscale
		depth  int64
		slots  int
	}{
		"nothing to do":     {Autoscale{1, 10, 1}, 0, 1},
		"a broker's -1":     {Autoscale{2, 10, 1}, -1, 2},
		"one each":          {Autoscale{1, 10, 1}, 7, 7},
		"as many as may be": {Autoscale{1, 10, 1}, 11, 10},
		"exactly":           {Autoscale{1, 10, 5}, 15, 3},
		"rounded up":        {Autoscale{1, 10, 5}, 16, 4},
		"less than one":     {Autoscale{1, 10, 100}, 1, 1},
		"fixed":             {Autoscale{4, 4, 1}, 1000, 4},
		"endless":           {Autoscale{1, 10, 1}, math.MaxInt64, 10},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.slots, c.bounds.wish(c.depth)) })
	}
}

func TestScalerIsTheHighestWishOfTheCoolDown(t *testing.T) {
	type step struct {
		after       time.Duration // since the step before
		wish, slots int
	}
	for name, steps := range map[string][]step{
		"grows at once":              {{0, 1, 1}, {time.Second, 5, 5}, {time.Second, 9, 9}},
		"shrinks when it has held":   {{0, 9, 9}, {5 * time.Second, 2, 9}, {25 * time.Second, 2, 9}, {5 * time.Second, 2, 2}},
		"a dent is none":             {{0, 9, 9}, {5 * time.Second, 1, 9}, {5 * time.Second, 9, 9}, {26 * time.Second, 1, 9}, {5 * time.Second, 1, 1}},
		"to the highest since":       {{0, 9, 9}, {5 * time.Second, 4, 9}, {20 * time.Second, 2, 9}, {6 * time.Second, 1, 4}, {5 * time.Second, 1, 2}},
		"a longer pause than it all": {{0, 9, 9}, {time.Hour, 3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var s scaler
			now := time.Now()
			for i, step := range steps {
				now = now.Add(step.after)
				require.Equal(t, step.slots, s.next(now, step.wish), "step %d", i)
			}
		})
	}
}

func TestScalerKeepsOnlyWhatCanBeTheHighest(t *testing.T) {
	var s scaler
	now := time.Now()
	for i := range 10_000 {
		s.next(now.Add(time.Duration(i)*scaleInterval), i%7)
	}
	require.LessOrEqual(t, len(s.wishes), int(scaleCooldown/scaleInterval)+1)
}
