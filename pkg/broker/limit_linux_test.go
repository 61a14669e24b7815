package broker

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// fileLimit is the environment variable that bounds the size of each file that a
// child writes, in bytes: what is left where no file system may be mounted.
const fileLimit = "LOVAGE_BROKER_FILE_LIMIT"

func limitFiles() {
	bytes, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64)
	if err != nil {
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails instead
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		panic(err)
	}
}
