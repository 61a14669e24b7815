package worker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(crashChildAddress); address != "" {
		crashChild(address)
		return
	}
	goleak.VerifyTestMain(m)
}
