package observe

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The log formats.
const (
	// Console is Celery's line: [2026-11-29 16:00:34,237: INFO/MainProcess] text.
	Console = "console"
	// JSON is one object a line, with the task's id, name and so on as fields.
	JSON = "json"
)

// NewLogger makes a logger that writes to out in a format (Console or JSON) from
// a level on (debug, info, warning, error, critical; Celery's names).
func NewLogger(out io.Writer, format, level string) (*zap.Logger, error) {
	threshold, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	var encoder zapcore.Encoder
	switch format {
	case Console:
		encoder = zapcore.NewConsoleEncoder(consoleEncoding())
	case JSON:
		encoder = zapcore.NewJSONEncoder(jsonEncoding())
	default:
		return nil, fmt.Errorf("observe: log format is %q, %q and %q are allowed", format, Console, JSON)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), threshold)
	if format == Console {
		core = console{core}
	}
	return zap.New(core), nil
}

// levels are Celery's names. zap has no CRITICAL that keeps the process alive:
// DPanic is an ordinary level in a production logger.
var levels = map[string]zapcore.Level{
	"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "warning": zapcore.WarnLevel,
	"error": zapcore.ErrorLevel, "critical": zapcore.DPanicLevel,
}

func parseLevel(name string) (zapcore.Level, error) {
	level, known := levels[name]
	if !known {
		return 0, fmt.Errorf("observe: log level is %q, debug, info, warning, error and critical are allowed", name)
	}
	return level, nil
}

func levelName(level zapcore.Level) string {
	switch level {
	case zapcore.DebugLevel:
		return "DEBUG"
	case zapcore.InfoLevel:
		return "INFO"
	case zapcore.WarnLevel:
		return "WARNING"
	case zapcore.ErrorLevel:
		return "ERROR"
	default:
		return "CRITICAL"
	}
}

func consoleEncoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", MessageKey: "message", StacktraceKey: "traceback",
		ConsoleSeparator: " ", LineEnding: zapcore.DefaultLineEnding,
		EncodeTime: func(t time.Time, out zapcore.PrimitiveArrayEncoder) {
			out.AppendString(t.Format("[2006-01-02 15:04:05,000:"))
		},
		EncodeLevel: func(level zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
			out.AppendString(levelName(level) + "/MainProcess]")
		},
	}
}

func jsonEncoding() zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", MessageKey: "message", StacktraceKey: "traceback", LineEnding: zapcore.DefaultLineEnding,
		EncodeTime: zapcore.ISO8601TimeEncoder, EncodeDuration: zapcore.SecondsDurationEncoder,
		EncodeLevel: func(level zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
			out.AppendString(levelName(level))
		},
	}
}

// console drops the fields, for the line has said it all in words, and lets nothing
// that a sender has written begin a line or reach the terminal: names and the texts of
// errors are escaped. A traceback has lines of its own.
type console struct{ zapcore.Core }

func (c console) With([]zapcore.Field) zapcore.Core { return c }

func (c console) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c console) Write(entry zapcore.Entry, _ []zapcore.Field) error {
	entry.Message = escaped(entry.Message, "")
	entry.Stack = escaped(entry.Stack, "\n\t")
	return c.Core.Write(entry, nil)
}

// escaped writes characters that can't be printed, but those kept, as Go and Python do.
func escaped(text, kept string) string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(kept, r) }
	if strings.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
