package broker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/stretchr/testify/require"
)

// damages are done to one file of a store. Those that leave the file as it was
// report false.
var damages = map[string]func(content []byte) ([]byte, bool){
	"flip 0":     flip(0),
	"flip 1/8":   flip(1. / 8),
	"flip 1/2":   flip(1. / 2),
	"flip last":  flip(1),
	"cut to 0":   cut(0),
	"cut to 3/4": cut(3. / 4),
	"cut a byte": func(content []byte) ([]byte, bool) { return content[:max(0, len(content)-1)], len(content) > 0 },
	"remove":     func([]byte) ([]byte, bool) { return nil, true },
}

// leaksVariable marks a test binary that runs a test whose goroutines can't end:
// Pebble leaves some behind when it can't open a database.
const leaksVariable = "LOVAGE_BROKER_LEAKS"

// inAProcessOfItsOwn runs the test again in a new process, and reports whether this
// is not the new one.
func inAProcessOfItsOwn(t *testing.T) bool {
	t.Helper()
	if os.Getenv(leaksVariable) != "" {
		return false
	}
	arguments := []string{"-test.run=^" + t.Name() + "$"}
	if testing.Verbose() {
		arguments = append(arguments, "-test.v")
	}
	command := exec.CommandContext(t.Context(), os.Args[0], arguments...)
	command.Env = append(os.Environ(), leaksVariable+"=1")
	output, err := command.CombinedOutput()
	t.Logf("%s", output)
	require.NoError(t, err)
	return true
}

func flip(at float64) func([]byte) ([]byte, bool) {
	return func(content []byte) ([]byte, bool) {
		if len(content) == 0 {
			return content, false
		}
		content[int(at*float64(len(content)-1))] ^= 0x41
		return content, true
	}
}

func cut(to float64) func([]byte) ([]byte, bool) {
	return func(content []byte) ([]byte, bool) {
		return content[:int(to*float64(len(content)))], len(content) > 0
	}
}

// TestADamagedStoreIsNoticed damages each file of a store in many ways. Each time the
// broker must refuse to open it, fail to read, and say what is wrong, or everything
// must be there. Of a store that was not stopped, the end of the log or of the
// manifest may be gone: what a crash may cut off can't be told from what somebody
// else did.
func TestADamagedStoreIsNoticed(t *testing.T) {
	t.Parallel()
	if inAProcessOfItsOwn(t) {
		return
	}
	stopped, crashed, content := twoStores(t)
	for state, original := range map[string]string{"stopped": stopped, "crashed": crashed} {
		for _, file := range filesOf(t, original) {
			for name, damage := range damages {
				t.Run(strings.Join([]string{state, file, name}, "/"), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					require.NoError(t, os.CopyFS(dir, os.DirFS(original)))
					if !damageFile(t, filepath.Join(dir, file), name, damage) {
						return
					}
					found, err := contentOf(t, dir)
					if err != nil {
						requireDescribed(t, err, dir)
						return
					}
					if state == "crashed" && strings.HasPrefix(name, "cut") && strings.Contains(file, "MANIFEST") {
						requireNothingInvented(t, content, found)
						return
					}
					if state == "crashed" && filepath.Ext(file) == ".log" {
						requirePrefix(t, content, found)
						return
					}
					require.Equal(t, content, found, "lost in silence")
				})
			}
		}
	}
}

// twoStores makes a store and returns two copies: one from after a stop, one as a
// crash would have left it. Both have tables and a log with messages.
func twoStores(t *testing.T) (stopped, crashed string, content map[uint64]string) {
	t.Helper()
	stopped, crashed, content = t.TempDir(), t.TempDir(), make(map[uint64]string)
	s, err := openDiskStore(t.Context(), Config{DataDir: stopped})
	require.NoError(t, err)
	require.NoError(t, s.load(visitor{message: func(storedMessage) {}, channel: func(channelKey) {}}))
	for id := uint64(1); id <= 60; id++ {
		body := fmt.Sprintf("body %d %s", id, strings.Repeat(strconv.FormatUint(id*7919, 10), 200))
		put := &storedMessage{id: id, channel: "q", size: int32(len(body)), state: state{seq: id}}
		require.NoError(t, s.commit([]mutation{{put: put, payload: &pb.QueueMessage{Body: []byte(body)}}}))
		content[id] = body
		if id%20 == 0 && id < 60 {
			require.NoError(t, s.db.Flush())
			settle(t, s)
		}
	}
	require.NoError(t, os.CopyFS(crashed, os.DirFS(stopped)))
	require.NoError(t, s.close())
	return stopped, crashed, content
}

// settle waits until Pebble has nothing to do: one table and no file to remove.
func settle(t *testing.T, s *diskStore) {
	t.Helper()
	require.NoError(t, s.db.Compact(t.Context(), []byte{keyChannel}, []byte{keyState + 1}, false))
	require.Eventually(t, func() bool {
		tables, err := filepath.Glob(filepath.Join(enginePath(s.dir), "*.sst"))
		return err == nil && len(tables) == 1
	}, waitLimit, time.Millisecond)
}

// filesOf lists the files of a store but its lock.
func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != "LOCK" {
			relative, _ := filepath.Rel(dir, path)
			files = append(files, relative)
		}
		return err
	}))
	require.NotEmpty(t, files)
	return files
}

func damageFile(t *testing.T, path, name string, damage func([]byte) ([]byte, bool)) bool {
	t.Helper()
	if name == "remove" {
		require.NoError(t, os.Remove(path))
		return true
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content, changed := damage(content)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return changed
}

// contentOf opens a store as a broker does and reads everything.
func contentOf(t *testing.T, dir string) (content map[uint64]string, err error) {
	t.Helper()
	s, err := openDiskStore(t.Context(), Config{DataDir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, s.close()) }()
	var ids []uint64
	err = s.load(visitor{
		message: func(m storedMessage) { ids = append(ids, m.id) },
		channel: func(channelKey) {},
	})
	if err != nil {
		return nil, err
	}
	messages, err := s.payloads(ids)
	if err != nil {
		return nil, err
	}
	found := make(map[uint64]string)
	for i, message := range messages {
		found[ids[i]] = string(message.GetBody())
	}
	return found, nil
}

// requireDescribed requires that the error says that the store is damaged, and where.
func requireDescribed(t *testing.T, err error, dir string) {
	t.Helper()
	t.Log(err)
	require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat), err)
	require.ErrorContains(t, err, dir)
}

// requirePrefix requires that the newest messages may be missing and nothing else.
func requirePrefix(t *testing.T, content, found map[uint64]string) {
	t.Helper()
	want := maps.Clone(content)
	maps.DeleteFunc(want, func(id uint64, _ string) bool { return id > uint64(len(found)) })
	require.Equal(t, want, found)
}

func requireNothingInvented(t *testing.T, content, found map[uint64]string) {
	t.Helper()
	for id, body := range found {
		require.Equal(t, content[id], body)
	}
}

// TestADamagedBlockCostsOnlyItsMessages: the broker goes on, says what it can't read, and
// has everything again when the file is restored.
func TestADamagedBlockCostsOnlyItsMessages(t *testing.T) {
	t.Parallel()
	if inAProcessOfItsOwn(t) {
		return
	}
	_, dir, content := twoStores(t)
	tables, err := filepath.Glob(filepath.Join(dir, "pebble", "*.sst"))
	require.NoError(t, err)
	whole, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	damageFile(t, tables[0], "flip", flip(1./8)) // in a payload, which is read when it is delivered
	b, err := New(Config{Listen: "127.0.0.1:0", DataDir: dir})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	c := connect(t, b)

	stream := c.consumer()
	stream.request(&pb.QueuesDownstreamRequest{RequestTypeData: pb.QueuesDownstreamRequestType_Get, Channel: "q", MaxItems: 1000})
	refused := stream.receive()
	require.True(t, refused.IsError)
	require.Contains(t, refused.Error, ErrDamaged.Error())
	require.Contains(t, refused.Error, tables[0])
	require.EqualValues(t, len(content), c.waiting("q"), "they stay")
	c.sendBodies("other", "x")
	require.Equal(t, []string{"x"}, bodies(stream.get("other", 1).Messages))
	require.NoError(t, b.Stop())

	require.NoError(t, os.WriteFile(tables[0], whole, 0o600))
	b, err = New(Config{Listen: "127.0.0.1:0", DataDir: dir})
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	require.Len(t, connect(t, b).consumer().get("q", 1000).Messages, len(content))
	require.NoError(t, b.Stop())
}
