//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	_ "github.com/Shopify/toxiproxy/v2/toxics" // registers them
)

// link is a proxy between some processes and the server.
type link struct {
	proxy *toxiproxy.Proxy
	dsn   string
}

// newLink starts a proxy before the server at dsn. Its port is none that Linux
// gives away by itself (from 32768 on, by default), or somebody else could have
// it by the time that a cut listens again.
func newLink(name, dsn string) (*link, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.New(io.Discard))
	l := &link{}
	for range 20 {
		listen := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		l.proxy = toxiproxy.NewProxy(server, name, listen, u.Host)
		if err = l.proxy.Start(); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start the proxy %s: %w", name, err)
	}
	u.Host = l.proxy.Listen
	l.dsn = u.String()
	return l, nil
}

func (l *link) close() { l.proxy.Stop() }

// cut closes all connections; new ones are accepted at once.
func (l *link) cut() error {
	l.proxy.Stop()
	return l.proxy.Start()
}

// poison has a toxic for d. Each ends with what had gone through it: the reset
// drops the next answer of the server and then the connection, silence drops
// everything and closes at the end.
func (l *link) poison(ctx context.Context, d time.Duration, toxics ...string) error {
	var names []string
	for _, toxic := range toxics {
		wrapper, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
		if err != nil {
			return fmt.Errorf("add the toxic %s: %w", toxic, err)
		}
		names = append(names, wrapper.Name)
	}
	wait(ctx.Done(), d)
	for _, name := range names {
		if err := l.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
			return fmt.Errorf("remove the toxic %s: %w", name, err)
		}
	}
	return nil
}

const (
	toxicReset   = `{"type": "reset_peer", "stream": "downstream", "attributes": {"timeout": 0}}`
	toxicSilence = `{"type": "timeout", "stream": "%s", "attributes": {"timeout": 0}}`
	toxicSlow    = `{"type": "latency", "stream": "%s", "attributes": {"latency": %d, "jitter": %d}}`
)
