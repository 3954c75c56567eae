//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo starts a server that sends back what it gets, and a link to it.
func echo(t *testing.T) *link {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	link, err := newLink("echo", "postgres://"+l.Addr().String()+"/x")
	require.NoError(t, err)
	t.Cleanup(link.close)
	return link
}

// say sends a line and returns what comes back within a while.
func say(conn net.Conn, wait time.Duration) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func dial(t *testing.T, l *link) net.Conn {
	conn, err := net.Dial("tcp4", l.proxy.Listen)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = say(conn, 10*time.Second)
	require.NoError(t, err)
	return conn
}

func TestLink(t *testing.T) {
	t.Parallel()
	l := echo(t)
	require.Equal(t, "postgres://"+l.proxy.Listen+"/x", l.dsn)

	conn := dial(t, l)
	require.NoError(t, l.cut())
	_, err := say(conn, 10*time.Second)
	require.Error(t, err)
	require.NotErrorIs(t, err, net.ErrClosed)

	for _, toxic := range []string{toxicReset, fmt.Sprintf(toxicSilence, "upstream"), fmt.Sprintf(toxicSilence, "downstream")} {
		conn = dial(t, l)
		done := make(chan error, 1)
		go func() { done <- l.poison(t.Context(), 200*time.Millisecond, toxic) }()
		require.Eventually(t, func() bool {
			_, err := say(conn, 50*time.Millisecond)
			return err != nil
		}, 10*time.Second, time.Millisecond, toxic)
		require.NoError(t, <-done)
		dial(t, l) // all is well again
	}

	conn = dial(t, l)
	done := make(chan error, 1)
	go func() {
		done <- l.poison(t.Context(), 500*time.Millisecond, fmt.Sprintf(toxicSlow, "upstream", 100, 0))
	}()
	require.Eventually(t, func() bool {
		begun := time.Now()
		_, err := say(conn, 10*time.Second)
		return err == nil && time.Since(begun) >= 100*time.Millisecond
	}, 10*time.Second, time.Millisecond, "slow, and no data is lost")
	require.NoError(t, <-done)
}
