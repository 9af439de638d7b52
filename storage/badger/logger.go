package badger

import (
	"fmt"
	"strings"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger forwards the library's messages to zap. Its info messages are for its
// developers, so they become debug messages. Its debug messages are dropped.
type logger struct{ zap *zap.Logger }

func (l logger) Errorf(format string, args ...any)   { l.log(zap.ErrorLevel, format, args) }
func (l logger) Warningf(format string, args ...any) { l.log(zap.WarnLevel, format, args) }
func (l logger) Infof(format string, args ...any)    { l.log(zap.DebugLevel, format, args) }
func (l logger) Debugf(string, ...any)               {}

func (l logger) log(level zapcore.Level, format string, args []any) {
	if !l.zap.Core().Enabled(level) {
		return
	}
	message := strings.TrimSpace(fmt.Sprintf(format, args...))
	if checked := l.zap.Check(level, message); checked != nil {
		checked.Write()
	}
}

var _ badgerdb.Logger = logger{}
