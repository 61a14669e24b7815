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
	if os.Getenv(leaksVariable) != "" {
		m.Run()
		return
	}
	goleak.VerifyTestMain(m)
}
