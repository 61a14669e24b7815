package config

import "fmt"

// autoscale is off unless its max is set.
func (b *builder) autoscale() Autoscale {
	settings := b.values.settings
	least, most, target := settings["worker_autoscale.min"], settings["worker_autoscale.max"], settings["worker_autoscale.target_depth_per_slot"]
	a := Autoscale{Min: as[int](least), Max: as[int](most), TargetDepthPerSlot: as[int](target)}
	if most.decoded == nil {
		if given := pick(least, target); given.source != nil && most.source == nil {
			b.fail(given, "has no effect without worker_autoscale.max, which switches it on")
		}
		return Autoscale{}
	}
	if a.Min > a.Max {
		b.fail(least, fmt.Sprintf("%d is not allowed: at most worker_autoscale.max, %d", a.Min, a.Max))
	}
	if concurrency := settings["worker_concurrency"]; concurrency.source != nil && concurrency.decoded != nil {
		b.report.warn(concurrency.name, concurrency.source, "has no effect here: worker_autoscale sets how many tasks run at once")
	}
	return a
}
