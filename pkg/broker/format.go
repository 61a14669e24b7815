package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// storeFormat is the format this version writes and reads. It changes with
	// the layout of keys and values, and with the storage engine.
	storeFormat = "lovage broker store 1"
	// formatFile holds it, as text, beside the engine's own files, so that it can
	// be told without knowing the engine.
	formatFile = "FORMAT"
)

// prepareDir makes dir ready for a store: a new one gets the format file, an
// existing one must have the format this version knows.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("broker: create the data directory: %w", err)
	}
	path := filepath.Join(dir, formatFile)
	found, err := os.ReadFile(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return createFormat(dir, path)
	}
	if err != nil {
		return fmt.Errorf("broker: read the store format: %w", err)
	}
	if format := strings.TrimSpace(string(found)); format != storeFormat {
		return fmt.Errorf("%w: %s says %.100q, this version reads and writes %q", ErrFormat, path, format, storeFormat)
	}
	return nil
}

// createFormat marks an empty directory as a store. A directory with other
// content is somebody else's.
func createFormat(dir, path string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("broker: read the data directory: %w", err)
	}
	for _, entry := range entries {
		// lost+found is in the root of every mounted ext4 volume.
		if name := entry.Name(); name != formatFile+newSuffix && name != "lost+found" {
			return fmt.Errorf("%w: %s is not empty and has no file %s", ErrFormat, dir, formatFile)
		}
	}
	if err := writeDurably(dir, path, storeFormat+"\n"); err != nil {
		return fmt.Errorf("broker: write the store format: %w", err)
	}
	return nil
}

// newSuffix is the end of a file's name while it is written.
const newSuffix = ".new"

// writeDurably writes a file so that it exists with its whole content or not at
// all, whenever the machine stops.
func writeDurably(dir, path, content string) error {
	file, err := os.Create(path + newSuffix) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
