package gen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write brings the files on disk up to date. A file that did not change is
// not touched. New content is first written beside the old and then renamed
// over it, so that a reader finds one or the other whole; if some new content
// cannot be written, no file is replaced.
func Write(files []File) (err error) {
	staged := map[string]string{} // path: temporary file
	defer func() {
		for _, temp := range staged {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	for _, f := range files {
		if f.New == nil || !f.Changed() {
			continue
		}
		temp, err := stage(f)
		if err != nil {
			return fmt.Errorf("write %s: %w; the old file is unchanged", f.Path, err)
		}
		staged[f.Path] = temp
	}
	for _, f := range files {
		if f.New == nil {
			if err := os.Remove(f.Path); err != nil {
				return fmt.Errorf("delete %s, whose events are gone: %w; delete it by hand", f.Path, err)
			}
			continue
		}
		temp, ok := staged[f.Path]
		if !ok {
			continue
		}
		if err := os.Rename(temp, f.Path); err != nil {
			return fmt.Errorf("replace %s: %w; the old file is unchanged", f.Path, err)
		}
		delete(staged, f.Path)
	}
	return nil
}

// stage writes the new content to a temporary file, whose name keeps the go
// command from reading it, with the permissions of the old file.
func stage(f File) (path string, err error) {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(f.Path); err == nil {
		mode = info.Mode().Perm()
	}
	if f.schema {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return "", err
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(f.Path), "."+filepath.Base(f.Path)+".*")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(f.New)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}
