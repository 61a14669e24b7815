package binding_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// BenchmarkBind binds arguments to a signature with a default and a keyword.
func BenchmarkBind(b *testing.B) {
	signature, err := binding.Compile("shop.add", reflect.TypeFor[kwDefault]())
	require.NoError(b, err)
	args, kwargs := []any{int64(1)}, map[string]any{"k": int64(3)}
	into := reflect.New(reflect.TypeFor[kwDefault]()).Elem()
	b.ReportAllocs()
	for b.Loop() {
		if err := signature.Bind(args, kwargs, into); err != nil {
			b.Fatal(err)
		}
	}
}
