//go:build unix

package pgcluster

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that a throwaway server runs as. Postgres refuses to run
// as root, so root's servers run as postgres, or as nobody.
type account struct{ uid, gid int }

func serverAccount() (account, error) {
	self := account{os.Geteuid(), os.Getegid()}
	if self.uid != 0 {
		return self, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return account{uid, gid}, nil
		}
	}
	return account{}, fmt.Errorf("the tests run as root, and there is no user postgres or nobody to run Postgres as; add one or set OUTBOX_TEST_DSN")
}

// own hands a file of ours to the account.
func (a account) own(file string) error {
	if a.uid == os.Geteuid() {
		return nil
	}
	return os.Chown(file, a.uid, a.gid)
}

// owns reports whether a file belongs to the account or to this process.
func (a account) owns(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(stat.Uid) == a.uid || int(stat.Uid) == os.Geteuid())
}

// process is how a program starts as the account, away from our terminal and
// process group.
func (a account) process() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a.uid != os.Geteuid() {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}
