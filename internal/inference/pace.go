package inference

import (
	"io"
	"sync/atomic"

	"github.com/caddy-gw/gateway/internal/exchange"
)

// A paced connection is one of a WebSocket whose sides have to take what they are sent, by the rule for
// request bodies. Otherwise a side that reads nothing would hold the connection, and what is under way,
// for as long as it likes. Caddy reads from it in one goroutine, and writes what it read to the client.
type paced struct {
	io.ReadWriteCloser
	call    *exchange.Call
	client  *exchange.StallTimer
	pending int         // bytes that the last Read returned
	stalled atomic.Bool // by the client

	of *pacedProvider
}

// pace paces a connection to a provider, which is read and written as provider is, or as what is put
// around that.
func pace(call *exchange.Call, conn io.ReadWriteCloser) *paced {
	p := &paced{call: call}
	p.of = &pacedProvider{ReadWriteCloser: conn}
	p.of.end = func() { p.Close() }
	p.of.to = call.Client.StallTimer(func(*exchange.Error) {
		p.of.stalled.Store(true)
		p.of.end() // which ends a blocked Write
	})
	p.ReadWriteCloser = p.of
	p.client = call.Client.StallTimer(func(*exchange.Error) {
		p.stalled.Store(true)
		call.Client.StopWriting()
		p.Close()
	})
	return p
}

func (p *paced) provider() io.ReadWriteCloser { return p.of }

// Read returns what is for the client. That it is called again means that the client, or the buffers of
// its connection, have taken all of what it returned before.
func (p *paced) Read(b []byte) (int, error) {
	p.client.Transferred(p.pending)
	n, err := p.ReadWriteCloser.Read(b)
	if p.pending = n; n > 0 {
		p.client.Start(true)
	}
	return n, err
}

// Close closes the connection to the provider.
func (p *paced) Close() error {
	p.client.Stop()
	p.of.to.Stop()
	return p.ReadWriteCloser.Close()
}

// failure is why the connection ended, if a side did not take what it was sent, or "".
func (p *paced) failure() string {
	switch {
	case p.stalled.Load():
		return clientStalled
	case p.of.stalled.Load():
		return providerStalled
	}
	return ""
}

// A pacedProvider is the connection to the provider.
type pacedProvider struct {
	io.ReadWriteCloser
	to      *exchange.StallTimer
	end     func() // closes the connection
	stalled atomic.Bool
}

func (p *pacedProvider) Write(b []byte) (int, error) {
	p.to.Start(true)
	n, err := p.ReadWriteCloser.Write(b)
	p.to.Transferred(n)
	return n, err
}
