package binding_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lovage-project/lovage/pkg/tasks/internal/binding"
)

// The structs below have the signatures of the functions in
// testdata/python_calls.py.
type (
	none struct{}
	one  struct{ X int64 }
	add  struct{ X, Y int64 }
	four struct{ A, B, C, D int64 }
	opt  struct {
		X int64
		Y int64 `celery:"y,default=71"`
	}
	allOpt struct {
		X int64 `celery:"x,default=70"`
		Y int64 `celery:"y,default=71"`
	}
	kwo struct {
		X int64
		K int64 `celery:"k,kwonly"`
	}
	kwMany struct {
		K  int64 `celery:"k,kwonly"`
		LL int64 `celery:"ll,kwonly"`
		M  int64 `celery:"m,kwonly"`
		N  int64 `celery:"n,kwonly,default=74"`
	}
	kwDefault struct {
		X int64
		Y int64 `celery:"y,default=71"`
		K int64 `celery:"k,kwonly,default=72"`
	}
	rest struct {
		X    int64
		Args []any `celery:",args"`
	}
	extra struct {
		X      int64
		Kwargs map[string]any `celery:",kwargs"`
	}
	everything struct {
		X      int64
		Y      int64 `celery:"y,default=71"`
		Args   []any `celery:",args"`
		K      int64
		M      int64          `celery:"m,default=73"`
		Kwargs map[string]any `celery:",kwargs"`
	}
)

// TestBindAsPython compares every call that CPython was asked to make.
func TestBindAsPython(t *testing.T) {
	signatures := map[string]any{
		"none": none{}, "one": one{}, "add": add{}, "four": four{}, "opt": opt{}, "allopt": allOpt{},
		"kwo": kwo{}, "kwmany": kwMany{}, "kwdefault": kwDefault{}, "rest": rest{}, "extra": extra{}, "everything": everything{},
	}
	data, err := os.ReadFile("testdata/python_calls.json")
	require.NoError(t, err)
	var cases [][]any
	require.NoError(t, json.Unmarshal(data, &cases))
	require.Greater(t, len(cases), 1000)
	for _, c := range cases {
		function := c[0].(string)
		in := reflect.TypeOf(signatures[function])
		signature, err := binding.Compile("proj.tasks."+function, in)
		require.NoError(t, err)
		args := make([]any, int(c[1].(float64)))
		for i := range args {
			args[i] = int64(i)
		}
		kwargs := map[string]any{}
		for _, name := range c[2].([]any) {
			kwargs[name.(string)] = int64(100 + len(name.(string)))
		}
		into := reflect.New(in).Elem()

		err = signature.Bind(args, kwargs, into)

		if text, failed := c[3].(string); failed {
			var typeError *binding.Error
			require.ErrorAs(t, err, &typeError, "%v", c)
			require.Equal(t, text, typeError.Text, "%v", c)
			continue
		}
		require.NoError(t, err, "%v", c)
		require.JSONEq(t, toJSON(t, c[3]), toJSON(t, fieldValues(into)), "%v", c)
	}
}

func fieldValues(v reflect.Value) []any {
	values := make([]any, v.NumField())
	for i := range values {
		values[i] = v.Field(i).Interface()
	}
	return values
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// bind compiles T under the name proj.call and binds a call to it.
func bind[T any](t *testing.T, args []any, kwargs map[string]any) (T, error) {
	t.Helper()
	signature, err := binding.Compile("proj.call", reflect.TypeFor[T]())
	require.NoError(t, err)
	var in T
	err = signature.Bind(args, kwargs, reflect.ValueOf(&in).Elem())
	return in, err
}

func requireTypeError(t *testing.T, err error, text string) {
	t.Helper()
	var typeError *binding.Error
	require.ErrorAs(t, err, &typeError)
	require.Equal(t, text, typeError.Text)
	exception := typeError.PythonException()
	require.Equal(t, "TypeError", exception.Type)
	require.Equal(t, "builtins", exception.Module)
	require.Equal(t, []any{text}, exception.Args)
}

func TestBindFieldNames(t *testing.T) {
	type base struct {
		Tenant string `json:"tenant_id,omitempty"`
	}
	type in struct {
		base
		OrderID    string
		HTTPServer string
		OrderIDs   []string
		Line2      string
		Hidden     string `celery:"-"`
		AlsoHidden string `json:"-"`
		Named      string `celery:"other,omitempty" json:"never"`
	}
	got, err := bind[in](t, []any{"t"}, map[string]any{
		"order_id": "o", "http_server": "h", "order_ids": []any{"a"}, "line2": "l", "other": "n",
	})
	require.NoError(t, err)
	require.Equal(t, in{base: base{Tenant: "t"}, OrderID: "o", HTTPServer: "h", OrderIDs: []string{"a"}, Line2: "l", Named: "n"}, got)
}

func TestBindOuterFieldHidesEmbedded(t *testing.T) {
	type Base struct{ X, Y int }
	type in struct {
		Base
		X int
	}
	got, err := bind[in](t, []any{int64(1), int64(2)}, nil)
	require.NoError(t, err)
	require.Equal(t, in{Base: Base{Y: 1}, X: 2}, got)
}

func TestBindPointerStruct(t *testing.T) {
	got, err := bind[*add](t, []any{int64(1), int64(2)}, nil)
	require.NoError(t, err)
	require.Equal(t, &add{X: 1, Y: 2}, got)
}

func TestBindOptional(t *testing.T) {
	type in struct {
		Must    *string `celery:"must,required"`
		Pointer *string
		Zero    int     `celery:"zero,optional"`
		Comma   string  `celery:"comma,default=a,b"`
		Shared  *int    `celery:"shared,default=5"`
		Nothing *int    `celery:"nothing,default=None"`
		Seconds float64 `celery:"seconds,default=1.5"`
	}
	_, err := bind[in](t, nil, nil)
	requireTypeError(t, err, "call() missing 1 required positional argument: 'must'")

	first, err := bind[in](t, []any{nil}, nil)
	require.NoError(t, err)
	require.Nil(t, first.Must)
	require.Nil(t, first.Pointer)
	require.Nil(t, first.Nothing)
	require.Equal(t, "a,b", first.Comma)
	require.InDelta(t, 1.5, first.Seconds, 0)
	require.Equal(t, 5, *first.Shared)
}

// Python's mutable defaults are a classic trap: each call gets its own.
func TestBindDefaultIsNotShared(t *testing.T) {
	type in struct {
		Limit *int `celery:"limit,default=5"`
	}
	signature, err := binding.Compile("call", reflect.TypeFor[in]())
	require.NoError(t, err)
	var first, second in
	require.NoError(t, signature.Bind(nil, nil, reflect.ValueOf(&first).Elem()))
	*first.Limit = 6
	require.NoError(t, signature.Bind(nil, nil, reflect.ValueOf(&second).Elem()))
	require.Equal(t, 5, *second.Limit)
}

func TestBindTypedCollectors(t *testing.T) {
	type in struct {
		Name string
		Nums []int          `celery:",args"`
		Opts map[string]int `celery:",kwargs"`
	}
	got, err := bind[in](t, []any{"n", int64(1), int64(2)}, map[string]any{"a": int64(3)})
	require.NoError(t, err)
	require.Equal(t, in{Name: "n", Nums: []int{1, 2}, Opts: map[string]int{"a": 3}}, got)

	got, err = bind[in](t, []any{"n"}, nil)
	require.NoError(t, err)
	require.Equal(t, in{Name: "n", Nums: []int{}, Opts: map[string]int{}}, got)

	_, err = bind[in](t, []any{"n", int64(1), "two"}, nil)
	requireTypeError(t, err, "call() argument 'nums[1]' must be int, not str")

	_, err = bind[in](t, []any{"n"}, map[string]any{"a": "x"})
	requireTypeError(t, err, `call() argument 'opts["a"]' must be int, not str`)
}

// What comes from a message must not blow up the error.
func TestBindCutsForeignText(t *testing.T) {
	long := strings.Repeat("ä", 1_000_000)
	_, err := bind[none](t, nil, map[string]any{long: 1})
	require.Less(t, len(err.Error()), 300)
	_, err = bind[struct{ M map[string]int }](t, []any{map[string]any{long: "x"}}, nil)
	require.Less(t, len(err.Error()), 300)
}

func TestCompileMistakes(t *testing.T) {
	type inner struct {
		Args []any `celery:",args"`
	}
	type Recursive struct{ *Recursive }
	cases := map[string]struct {
		in   any
		want string
	}{
		"no struct":     {7, "must take a struct whose fields are the arguments, not int"},
		"time":          {struct{ C chan int }{}, "field C: no argument can become chan int"},
		"interface":     {struct{ E error }{}, "field E: no argument can become error"},
		"func in slice": {struct{ F []func() }{}, "no argument can become func()"},
		"unknown option": {struct {
			X int `celery:"x,requird"`
		}{}, `field X: tag ` + "`celery:\"x,requird\"`" + `: unknown option "requird"`},
		"args not slice": {struct {
			X int `celery:",args"`
		}{}, "args needs a slice, not int"},
		"kwargs not map": {struct {
			X []any `celery:",kwargs"`
		}{}, "kwargs needs a map with string keys"},
		"two args": {struct {
			X, Y []any `celery:",args"`
		}{}, "only one field can take args"},
		"args twice": {struct {
			X []any `celery:"a,args"`
			Y []any `celery:"b,args"`
		}{}, "only one field can take args"},
		"args and kwargs": {struct {
			X []any `celery:",args,kwargs"`
		}{}, "can't take both"},
		"args default": {struct {
			X []any `celery:",args,optional"`
		}{}, "stand alone"},
		"required default": {struct {
			X int `celery:"x,required,default=1"`
		}{}, "required contradicts"},
		"same name": {struct {
			X int `celery:"n"`
			Y int `celery:"n"`
		}{}, `have the same name "n"`},
		"order": {struct {
			X int `celery:"x,default=1"`
			Y int
		}{}, `parameter "y" without a default follows "x"`},
		"pointer order": {struct {
			X *int
			Y int
		}{}, `parameter "y" without a default follows "x"`},
		"bad default": {struct {
			X int `celery:"x,default=ten"`
		}{}, `field X: default "ten": not an integer`},
		"default too big": {struct {
			X int8 `celery:"x,default=200"`
		}{}, `default "200": 200 is out of range for int8 (-128 to 127)`},
		"default of slice": {struct {
			X []int `celery:"x,default=[]"`
		}{}, "can't be written in a tag"},
		"default bool": {struct {
			X bool `celery:"x,default=maybe"`
		}{}, `default "maybe"`},
		"map keys":         {struct{ X map[float64]int }{}, "can't become a float64"},
		"args in nested":   {struct{ X inner }{}, "args, kwargs and kwonly are for the parameters of a task"},
		"embedded pointer": {Recursive{}, "embed the struct itself"},
		"embedded with clash": {struct {
			X int `celery:"y"`
			Y int
		}{}, "have the same name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := binding.Compile("call", reflect.TypeOf(c.in))
			require.ErrorContains(t, err, c.want)
		})
	}
}
