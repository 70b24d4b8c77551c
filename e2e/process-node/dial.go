package main

import (
	"context"
	"net"
	"time"
)

const (
	redialPeriod = 200 * time.Millisecond
	redialMax    = time.Minute
)

// patientDial waits for a server that refuses connections. A watch that would
// fail at once is tried again after up to half a minute; this one continues as
// soon as a restarted API server listens.
func patientDial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, redialMax)
	defer cancel()
	var dialer net.Dialer
	for {
		connection, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return connection, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(redialPeriod):
		}
	}
}
