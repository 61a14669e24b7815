package config

// Source says where settings come from. The zero value gives the defaults.
type Source struct {
	// Path of celery.yaml; "" = no file.
	Path string
	// Environ is the environment in the form of os.Environ; nil = none.
	Environ []string
	// Overrides is what the command line gives: settings by name, or in the forms
	// that Celery takes after "--" ("worker.concurrency", ".concurrency"), with
	// the value as an environment variable would have it: lists parted by commas,
	// maps as YAML. Celery's "(int)" before a value is passed over.
	Overrides map[string]string
}

// Load reads, merges and checks the settings. The error joins one [*Error] for
// each mistake; the warnings are for the log.
func Load(source Source) (*Settings, []Warning, error) {
	var data []byte
	if source.Path != "" {
		var err error
		if data, err = readFile(source.Path); err != nil {
			return nil, nil, err
		}
	}
	return load(source, data)
}

func load(source Source, data []byte) (*Settings, []Warning, error) {
	known, found := newIndex(Table()), &report{}
	file := parseFile(source.Path, data, known, found)
	environment := readEnvironment(source.Environ, known, found)
	overrides := readOverrides(source.Overrides, known, found)
	for _, layer := range []leaves{file, environment, overrides} {
		foldBroker(layer, known, found)
	}
	effective := decodeAll(known, merged(known.table, file, environment, overrides), found)
	effective.served = highestWithMaps(overrides, environment, file)
	if err := found.err(); err != nil {
		return nil, nil, err // what depends on a wrong value would only confuse
	}
	settings := build(effective, found)
	if err := found.err(); err != nil {
		return nil, nil, err
	}
	return settings, ordered(found.warnings), nil
}

// foldBroker turns "broker: embedded" into the broker_url that it is short for,
// layer by layer, so that a broker_url of a higher layer beats it.
func foldBroker(layer leaves, index index, report *report) {
	short, given := layer["broker"]
	if !given {
		return
	}
	value, err := index.byName["broker"].decode(short.node)
	if err != nil {
		report.fail("broker", short, err.Error())
	}
	delete(layer, "broker")
	if value == nil {
		return
	}
	if long, both := layer["broker_url"]; both && follow(long.node).Value != embeddedURL {
		report.fail("broker", short, "embedded contradicts broker_url: keep one of them")
		return
	}
	layer["broker_url"] = &raw{node: stringNode(embeddedURL), layer: short.layer, place: short.place, line: short.line}
}

const embeddedURL = "embedded://"
