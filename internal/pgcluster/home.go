//go:build unix

package pgcluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// home is the directory of this user's throwaway servers, owned by the account
// that they run as. The last server removes it.
type home struct {
	dir     string
	account account
}

// homeAttempts bounds the tries to get hold of a file in a directory that others
// may remove meanwhile.
const homeAttempts = 100

// openHome makes the directory unless it is there.
func openHome() (home, error) {
	account, err := serverAccount()
	if err != nil {
		return home{}, err
	}
	h := home{filepath.Join(tempDir(account), "typedoutbox-postgres-"+strconv.Itoa(os.Geteuid())), account}
	if err := os.Mkdir(h.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return home{}, err
	}
	info, err := os.Lstat(h.dir)
	if err != nil {
		return home{}, err
	}
	if !info.IsDir() || !account.owns(info) || info.Mode().Perm() != 0o700 {
		return home{}, fmt.Errorf("%s is not a private directory of ours; remove it", h.dir)
	}
	return h, account.own(h.dir)
}

// tempDir is the directory for temporary files, in memory unless TMPDIR says
// otherwise, or /tmp if the account cannot get there.
func tempDir(a account) string {
	if os.Getenv("TMPDIR") == "" {
		if dir := memoryDir(); dir != "" {
			return dir
		}
	}
	dir := filepath.Clean(os.TempDir())
	if a.uid == os.Geteuid() {
		return dir
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o003 != 0o003 {
		return "/tmp"
	}
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm()&0o001 == 0 {
			return "/tmp"
		}
	}
	return dir
}

// join takes hold of the server of this run of go test, our parent process, and
// starts it if this process is the first.
func join() (_ *Cluster, err error) {
	if _, err := programs(); err != nil {
		return nil, err
	}
	run := strconv.Itoa(os.Getppid())
	h, pointer, err := lockRun(run)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			// Nobody else does, without a server.
			_, _ = os.Remove(pointer.Name()), os.Remove(h.dir)
		}
		_ = pointer.Close() // and with it goes the lock
	}()
	h.sweep()
	dir, err := io.ReadAll(io.LimitReader(pointer, 4096))
	if err != nil {
		return nil, err
	}
	if filepath.Dir(string(dir)) == h.dir {
		if s, err := joinDir(string(dir)); err == nil {
			if s.answers() {
				return &Cluster{url: s.url, hold: s}, nil
			}
			_ = s.close()
		}
	}
	s, err := start(run, pointer.Name(), nil)
	if err != nil {
		return nil, err
	}
	err = pointer.Truncate(0)
	if err == nil {
		_, err = pointer.WriteAt([]byte(s.dir), 0)
	}
	if err != nil {
		return nil, errors.Join(err, s.users.Close())
	}
	return &Cluster{url: s.url, hold: s}, nil
}

// lockRun returns the file that points to the server of a run, locked. A server
// that ends removes the file, and the home with it, which may come between two
// steps of ours.
func lockRun(run string) (h home, f *os.File, err error) {
	for range homeAttempts {
		if h, err = openHome(); err != nil {
			continue
		}
		if f, err = os.OpenFile(filepath.Join(h.dir, "run-"+run), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600); err != nil {
			continue
		}
		if err = errors.Join(h.account.own(f.Name()), flock(f)); err != nil {
			return home{}, nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if isAt(f, f.Name()) {
			return h, f, nil
		}
		_ = f.Close()
		err = fmt.Errorf("%s is replaced again and again", f.Name())
	}
	return home{}, nil, err
}

// flock waits for the exclusive lock on f. Whoever holds it is bounded by
// startPatience.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isAt reports whether f is still what the name stands for.
func isAt(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, there)
}

// sweepAfter is the age of a directory without a supervisor that is none of a
// server which starts or ends at this moment.
const sweepAfter = 10 * time.Minute

// sweep removes what killed supervisors left. A server whose files are gone
// ends by itself within a minute.
func (h home) sweep() {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		file := filepath.Join(h.dir, entry.Name())
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < sweepAfter {
			continue
		}
		switch {
		case strings.HasPrefix(entry.Name(), "server-"):
			if !supervised(file) {
				_ = os.RemoveAll(file)
			}
		case strings.HasPrefix(entry.Name(), "run-"):
			dir, err := os.ReadFile(file)
			if err == nil && !supervised(string(dir)) {
				_ = os.Remove(file)
			}
		}
	}
}

// supervised reports whether the pipe of the server in dir has a reader.
func supervised(dir string) bool {
	for _, pipe := range []string{"users", "closed"} {
		f, err := os.OpenFile(filepath.Join(dir, pipe), os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err == nil {
			_ = f.Close()
			return true
		}
	}
	return false
}
