package pgcluster

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrUnavailable is returned when there is neither a server nor the programs to
// start one.
var ErrUnavailable = errors.New("no Postgres found: neither initdb and postgres on PATH nor in /usr/lib/postgresql; " +
	"get one with `apt-get install postgresql`, or set OUTBOX_TEST_DSN to the URL of a server on which databases may be created")

// FindBinaries returns the first directory that holds both initdb and postgres:
// those of path, a list in the manner of PATH, then root/*/bin, the newest
// version first. It returns [ErrUnavailable] if there is none.
func FindBinaries(path, root string) (string, error) {
	installed, err := filepath.Glob(filepath.Join(root, "*", "bin"))
	if err != nil {
		return "", err
	}
	slices.SortFunc(installed, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	for _, dir := range append(filepath.SplitList(path), installed...) {
		if filepath.IsAbs(dir) && executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", ErrUnavailable
}

// version is 15 for /usr/lib/postgresql/15/bin, and 9.6 for one that old.
func version(bin string) float64 {
	v, err := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64)
	if err != nil {
		return 0
	}
	return v
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
