package handlers_test

import (
	"testing"

	"github.com/miekg/dns"
)

// loopbackResolver is a DNS server that answers 127.0.0.1 to every question.
func loopbackResolver(t *testing.T) string {
	t.Helper()
	server := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A 127.0.0.1")
			if err != nil {
				t.Error(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})}
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() {
		if err := server.ListenAndServe(); err != nil {
			t.Error(err)
		}
	}()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })
	return server.PacketConn.LocalAddr().String()
}

// nothingResolver is a DNS server that knows no name.
func nothingResolver(t *testing.T) string {
	t.Helper()
	server := &dns.Server{Addr: "127.0.0.1:0", Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNameError))
	})}
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() {
		if err := server.ListenAndServe(); err != nil {
			t.Error(err)
		}
	}()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })
	return server.PacketConn.LocalAddr().String()
}
