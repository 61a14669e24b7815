package config

import "time"

func (b *builder) health() Health {
	health := Health{
		Listen:   get[string](b.values, "health.listen"),
		Watchdog: get[time.Duration](b.values, "health.watchdog"),
		Profiles: get[bool](b.values, "health.pprof"),
	}
	profiles := b.values.settings["health.pprof"]
	if health.Profiles && health.Listen != "" && !isLoopback(health.Listen) {
		b.report.warn(profiles.name, profiles.source, "profiles are open to the network with health.listen: anyone there can slow the worker down")
	}
	return health
}

// retries are the bounds of connecting at the start and of connecting again, in the
// form of KubeMQ.StartRetries.
func (b *builder) retries() (start, later int) {
	later = get[int](b.values, "broker_connection_max_retries")
	start = later
	if !get[bool](b.values, "broker_connection_retry") {
		later = -1
	}
	if !b.either("broker_connection_retry_on_startup", "broker_connection_retry") {
		start = -1
	}
	return start, later
}
