package config

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// builder makes the typed groups out of the effective values, and checks what
// only shows where settings meet.
type builder struct {
	values *values
	report *report
}

func build(values *values, report *report) *Settings {
	b := &builder{values: values, report: report}
	s := &Settings{values: values}
	s.EmbeddedBroker = b.embeddedBroker()
	s.Broker = b.broker(s.EmbeddedBroker)
	s.Results = b.results(s.Broker, s.EmbeddedBroker)
	s.Worker = b.worker()
	b.checkDeduplication(s)
	s.Log = Log{Format: get[string](values, "log.format"), Level: get[string](values, "log.level")}
	if s.Log.Level == "fatal" {
		s.Log.Level = "critical" // two names of one level, as in Python
	}
	s.Health = b.health()
	s.Sentry = b.sentry()
	return s
}

// fail reports a problem with the value of a setting or option. Defaults are
// without mistakes, so there is a source, except where the mistake is that
// nothing was set.
func (b *builder) fail(v value, problem string) {
	at := v.source
	if at == nil {
		at = &raw{layer: layerDefault}
	}
	b.report.fail(v.name, at, problem)
}

// pick returns the candidate of the highest layer; among equals the first.
// Candidates that were not given don't count.
func pick(candidates ...value) value {
	var best value
	for _, candidate := range candidates {
		if candidate.decoded != nil && (best.decoded == nil || candidate.layer() > best.layer()) {
			best = candidate
		}
	}
	return best
}

func (v value) layer() layer {
	if v.source == nil {
		return layerDefault
	}
	return v.source.layer
}

func (b *builder) worker() Worker {
	v, entries := b.values, b.entries()
	w := Worker{
		Hostname:                 get[string](v, "hostname"),
		Concurrency:              get[int](v, "worker_concurrency"),
		Queues:                   b.queues(entries),
		AcksLate:                 get[bool](v, "task_acks_late"),
		AcksOnFailure:            b.either("task_acks_on_failure", "task_acks_on_failure_or_timeout"),
		AcksOnTimeout:            b.either("task_acks_on_timeout", "task_acks_on_failure_or_timeout"),
		RejectOnWorkerLost:       get[bool](v, "task_reject_on_worker_lost"),
		IgnoreResult:             get[bool](v, "task_ignore_result"),
		StoreErrorsEvenIfIgnored: get[bool](v, "task_store_errors_even_if_ignored"),
		TrackStarted:             get[bool](v, "task_track_started"),
		DeduplicateSuccessful:    get[bool](v, "worker_deduplicate_successful_tasks"),
		DedupWindow:              get[int](v, "worker_dedup_window"),
		AcceptContent:            b.acceptContent(),
		TaskSerializer:           get[string](v, "task_serializer"),
		TaskCompression:          get[string](v, "task_compression"),
		TaskProtocol:             get[int](v, "task_protocol"),
		TaskRoutes:               b.routes(),
		TaskDefaultQueue:         get[string](v, "task_default_queue"),

		TaskInheritParentPriority: get[bool](v, "task_inherit_parent_priority"),

		Timezone: b.timezone(),
		Limits: Limits{
			Envelope: get[int](v, "limits.envelope"), Body: get[int](v, "limits.body"),
			Depth: get[int](v, "limits.depth"), Items: get[int](v, "limits.items"),
		},
		UnprocessableQueue:  get[string](v, "unprocessable_queue"),
		UnknownTask:         get[string](v, "unknown_task"),
		UnknownTaskAttempts: get[int](v, "unknown_task_attempts"),
	}
	if w.Concurrency == 0 {
		w.Concurrency = runtime.GOMAXPROCS(0) // knows the container's share of the CPUs
	}
	if _, err := NodeName(w.Hostname, "host"); err != nil {
		b.fail(v.settings["hostname"], strings.TrimPrefix(err.Error(), "config: "))
	}
	w.RayServe = b.rayServe(entries, w.Queues)
	w.Autoscale = b.autoscale()
	b.delivery(&w)
	b.checkSideQueues(w)
	return w
}

// either is the first setting, or the second where that is null.
func (b *builder) either(name, fallback string) bool {
	if chosen, set := b.values.settings[name].decoded.(bool); set {
		return chosen
	}
	return get[bool](b.values, fallback)
}

// acceptContent checks the serializers. pickle is left out, with a warning:
// configurations name it, but only Python can read it.
func (b *builder) acceptContent() []string {
	setting := b.values.settings["accept_content"]
	var accepted []string
	for _, name := range get[[]string](b.values, "accept_content") {
		switch {
		case slices.Contains(contentTypes, name):
			accepted = append(accepted, name)
		case slices.Contains(pickleTypes, name):
			b.report.warn(setting.name, setting.source, name+" has no effect here: only Python can read it")
		default:
			b.fail(setting, fmt.Sprintf("%s is not allowed: %s", quoted(name), oneOf(contentTypes)))
		}
	}
	if len(accepted) == 0 {
		b.fail(setting, "no serializer is left: "+oneOf(contentTypes))
	}
	return accepted
}

var (
	contentTypes = []string{"json", "yaml", "msgpack", "application/json", "application/x-yaml", "application/x-msgpack"}
	pickleTypes  = []string{"pickle", "application/x-python-serialize"}
)

func (b *builder) timezone() *time.Location {
	setting := b.values.settings["timezone"]
	name, set := setting.decoded.(string)
	switch {
	case !set && get[bool](b.values, "enable_utc"):
		return time.UTC
	case !set:
		return time.Local
	case strings.EqualFold(name, "utc"):
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		b.fail(setting, quoted(name)+" is not allowed: a zone of the IANA database, such as Europe/Berlin")
		return time.UTC
	}
	return zone
}

// delivery sets what KubeMQ's guide has among the transport's options: the cap of
// deliveries, where messages beyond it go, who acks, and the longest wait of a retry.
func (b *builder) delivery(w *Worker) {
	options := b.values.options["broker_transport_options"]
	w.AutoAck = as[bool](pick(options["auto_ack"], b.values.settings["auto_ack"]))
	w.RetryCountdownMax = as[time.Duration](pick(options["retry_countdown_max"], b.values.settings["retry_countdown_max"]))
	limit := pick(options["max_attempts"], b.values.settings["max_attempts"])
	letters := pick(options["dead_letter_queue"], b.values.settings["dead_letter_queue"])
	w.MaxAttempts, w.DeadLetterQueue = as[int](limit), as[string](letters)
	if w.MaxAttempts > 0 && w.DeadLetterQueue == "" {
		b.fail(limit, fmt.Sprintf("%d is given without dead_letter_queue: messages beyond the limit would be lost", w.MaxAttempts))
	}
	if slices.Contains(w.Queues, w.DeadLetterQueue) {
		b.fail(letters, quoted(w.DeadLetterQueue)+" is consumed by this worker: rejected messages would come back to it")
	}
}

// checkDeduplication warns where nothing says which tasks have succeeded.
func (b *builder) checkDeduplication(s *Settings) {
	if !s.Worker.DeduplicateSuccessful || s.Results.Backend != BackendDisabled {
		return
	}
	setting := b.values.settings["worker_deduplicate_successful_tasks"]
	b.report.warn(setting.name, setting.source, "has no effect here without result_backend: no result says what has succeeded")
}

// checkSideQueues refuses an unprocessable queue that would feed the worker what
// it has just put aside.
func (b *builder) checkSideQueues(w Worker) {
	setting := b.values.settings["unprocessable_queue"]
	if strings.Contains(strings.ReplaceAll(w.UnprocessableQueue, "%s", ""), "%") {
		b.fail(setting, quoted(w.UnprocessableQueue)+" is not allowed: %s is the only placeholder")
	}
	for _, queue := range w.CeleryQueues() {
		if aside := strings.ReplaceAll(w.UnprocessableQueue, "%s", queue); slices.Contains(w.Queues, aside) {
			b.fail(setting, quoted(aside)+" is consumed by this worker: bad messages would come back to it")
			return
		}
	}
}
