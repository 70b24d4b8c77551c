package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/virtual-kubelet/virtual-kubelet/log"
)

// libraryLogger lets virtual-kubelet log through slog. (Its own adapter takes
// strings only, but the library also logs errors.) What it calls information,
// every created pod for one, is a detail here.
type libraryLogger struct{ to *slog.Logger }

var _ log.Logger = libraryLogger{}

func (l libraryLogger) Debug(args ...any)                 { l.to.Debug(fmt.Sprint(args...)) }
func (l libraryLogger) Debugf(format string, args ...any) { l.to.Debug(fmt.Sprintf(format, args...)) }
func (l libraryLogger) Info(args ...any)                  { l.to.Debug(fmt.Sprint(args...)) }
func (l libraryLogger) Infof(format string, args ...any)  { l.to.Debug(fmt.Sprintf(format, args...)) }
func (l libraryLogger) Warn(args ...any)                  { l.to.Warn(fmt.Sprint(args...)) }
func (l libraryLogger) Warnf(format string, args ...any)  { l.to.Warn(fmt.Sprintf(format, args...)) }
func (l libraryLogger) Errorf(format string, args ...any) { l.to.Error(fmt.Sprintf(format, args...)) }

// untrueHere is said before a deletion that podWriter turns into an orderly one.
const untrueHere = "Force deleting pod in running state"

func (l libraryLogger) Error(args ...any) {
	if text := fmt.Sprint(args...); text == untrueHere {
		l.to.Debug(text)
	} else {
		l.to.Error(text)
	}
}

func (l libraryLogger) Fatal(args ...any) {
	l.Error(args...)
	os.Exit(1)
}

func (l libraryLogger) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	os.Exit(1)
}

func (l libraryLogger) WithField(key string, value any) log.Logger {
	return libraryLogger{l.to.With(key, value)}
}

func (l libraryLogger) WithFields(fields log.Fields) log.Logger {
	args := make([]any, 0, 2*len(fields))
	for key, value := range fields {
		args = append(args, key, value)
	}
	return libraryLogger{l.to.With(args...)}
}

// WithError logs the error's text; as a value it would bring its stack along.
func (l libraryLogger) WithError(err error) log.Logger {
	if err == nil {
		return l
	}
	return l.WithField("error", err.Error())
}
