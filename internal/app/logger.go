package app

import (
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// A currentLogger is a logging core that delegates to that of the current configuration. It
// is used by whatever outlives a configuration, because the loggers of an old one may have
// been closed.
type currentLogger struct{ core atomic.Pointer[zapcore.Core] }

// use makes core the current one.
func (l *currentLogger) use(core zapcore.Core) { l.core.Store(&core) }

func (l *currentLogger) current() zapcore.Core { return *l.core.Load() }

func (l *currentLogger) Enabled(level zapcore.Level) bool { return l.current().Enabled(level) }

// With binds fields to the current logger; nothing here logs with bound fields.
func (l *currentLogger) With(fields []zapcore.Field) zapcore.Core { return l.current().With(fields) }

func (l *currentLogger) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return l.current().Check(e, c)
}

func (l *currentLogger) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return l.current().Write(e, fields)
}

func (l *currentLogger) Sync() error { return l.current().Sync() }

// Interface guards
var _ zapcore.Core = (*currentLogger)(nil)
