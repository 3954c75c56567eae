package pgcluster

import (
	"os"
	"syscall"
)

// memoryNeeded is far more than a run of tests holds at once: about 10 MB a
// database and some hundred of log.
const memoryNeeded = 4 << 30

// memoryDir is a file system in memory that has room for a server, or "". A
// test run makes and drops hundreds of databases, gigabytes of writes, and a
// slow disk stalls the server for seconds when it must take them.
func memoryDir() string {
	const dir = "/dev/shm"
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
		return ""
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < memoryNeeded {
		return ""
	}
	return dir
}
