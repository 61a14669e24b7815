package broker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashChildDir); dir != "" {
		crashChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
