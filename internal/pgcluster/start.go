//go:build unix

package pgcluster

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed supervise.sh
var supervise string

const (
	// startPatience bounds initdb and the start of the server, which take a
	// second or two on an idle machine.
	startPatience = time.Minute

	// portAttempts is how often another port is tried when a stranger takes
	// the free one that we found.
	portAttempts = 3
)

var errPortTaken = errors.New("the port was taken meanwhile")

// programs returns where initdb and postgres are.
func programs() (string, error) {
	return FindBinaries(os.Getenv("PATH"), "/usr/lib/postgresql")
}

func startPrivate(settings []string) (*Cluster, error) {
	s, err := start("", "", settings)
	if err != nil {
		return nil, err
	}
	return &Cluster{url: s.url, stop: sync.OnceValue(s.close), crash: s.crash, restart: s.restart}, nil
}

// server is a throwaway server and the hold of this process on it.
type server struct {
	url        *url.URL
	dir        string
	users      *os.File  // the named pipe, open for writing
	supervisor *exec.Cmd // nil if another process started it
	program    []string  // nil likewise: how to start the server in dir
}

// close lets go of the server and, if this process started it, waits for its
// end.
func (s *server) close() error {
	err := s.users.Close()
	if s.supervisor != nil {
		err = errors.Join(err, s.supervisor.Wait())
	}
	return err
}

// answers reports whether the server can be used.
func (s *server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return (&Cluster{url: s.url}).admin(ctx, func(ctx context.Context, conn *sql.Conn) error { return conn.PingContext(ctx) }) == nil
}

// start starts a server that stops with its last user; if run is a process id,
// it lingers a while for the next one as long as that process lives. The server
// removes the file pointer at its end if that names its directory.
func start(run, pointer string, settings []string) (*server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	for range portAttempts {
		var s *server
		s, err = startOnce(bin, run, pointer, settings)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, fmt.Errorf("start a throwaway Postgres with the programs in %s: %w; or set OUTBOX_TEST_DSN to the URL of a server", bin, err)
}

func startOnce(bin, run, pointer string, settings []string) (s *server, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	h, dir, err := prepare(password)
	if err != nil {
		return nil, err
	}
	users := filepath.Join(dir, "users")
	// Held from before the supervisor's first look: it must not find itself
	// without users. Open for reading too, which does not block.
	hold, err := os.OpenFile(users, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var supervisor *exec.Cmd
	defer func() {
		err = errors.Join(err, hold.Close())
		if err != nil && supervisor != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = supervisor.Wait() // it has no users now
		}
	}()

	var options []string
	// DROP DATABASE waits for every backend, and one that waits for a client to
	// log in does not answer; pgdriver leaves its end open when it gives up then.
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(port), "unix_socket_directories=",
		"fsync=off", "full_page_writes=off", "max_connections=200", "authentication_timeout=10s",
	}, settings...) {
		options = append(options, "-c", setting)
	}
	args := append([]string{"-c", supervise, "supervise.sh", bin, run, pointer}, options...)
	if supervisor, err = h.run(dir, args); err != nil {
		return nil, err
	}
	u := &url.URL{
		Scheme: "postgres", User: url.UserPassword("outbox", password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte(u.String()), 0o600); err != nil {
		return nil, err
	}
	s, err = joinDir(dir)
	if err != nil {
		return nil, err
	}
	s.supervisor = supervisor
	s.program = append([]string{filepath.Join(bin, "postgres"), "-D", "data"}, options...)
	return s, nil
}

// prepare makes the directory of a server.
func prepare(password string) (h home, dir string, err error) {
	// A server that ends may remove an empty home between our two steps.
	for range homeAttempts {
		if h, err = openHome(); err != nil {
			continue
		}
		if dir, err = os.MkdirTemp(h.dir, "server-"); err == nil {
			break
		}
	}
	if err != nil {
		return home{}, "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	users, pwfile := filepath.Join(dir, "users"), filepath.Join(dir, "password")
	if err := syscall.Mkfifo(users, 0o600); err != nil {
		return home{}, "", fmt.Errorf("make a named pipe: %w", err)
	}
	if err := os.WriteFile(pwfile, []byte(password), 0o600); err != nil {
		return home{}, "", err
	}
	for _, file := range []string{pwfile, users, dir} {
		if err := h.account.own(file); err != nil {
			return home{}, "", err
		}
	}
	return h, dir, nil
}

// run starts the supervisor in dir and waits until its server is ready. Unless
// the returned command is nil, the supervisor removes dir when it is without
// users.
func (h home) run(dir string, args []string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	said, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close() }()
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.Stdout, cmd.Stderr = say, log
	cmd.SysProcAttr = h.account.process()
	err = cmd.Start()
	_ = say.Close()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := said.SetReadDeadline(time.Now().Add(startPatience)); err != nil {
		return cmd, err
	}
	word, err := io.ReadAll(io.LimitReader(said, int64(len("ready"))))
	if string(word) == "ready" {
		return cmd, nil
	}
	// The file may be gone, but not for us.
	text, _ := io.ReadAll(io.NewSectionReader(log, 0, 1<<20))
	if strings.Contains(string(text), "could not bind") {
		return cmd, errPortTaken
	}
	if err == nil {
		err = errors.New("it ended")
	}
	return cmd, fmt.Errorf("not ready: %w; its log: %s", err, strings.TrimSpace(string(text)))
}

// joinDir takes hold of the server in dir, or says that it has none.
func joinDir(dir string) (*server, error) {
	// Without a reader, which is the supervisor, this is ENXIO.
	users, err := os.OpenFile(filepath.Join(dir, "users"), os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, users: users}
	text, err := os.ReadFile(filepath.Join(dir, "url"))
	if err == nil {
		s.url, err = url.Parse(string(text))
	}
	if err == nil {
		_, err = users.WriteString("u") // one more has come
	}
	if err != nil {
		return nil, errors.Join(err, users.Close())
	}
	return s, nil
}

// freePort returns a port of 127.0.0.1 that was free a moment ago. It is none
// that Linux gives away by itself (from 32768 on, by default), or somebody else
// could have it by the time that a crashed server starts again.
func freePort() (int, error) {
	var err error
	for range 20 {
		port := 20000 + mathrand.IntN(12000)
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
