package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/lovage-project/lovage/pkg/tasks"
)

// registerValues registers tasks with typed arguments and results.
func registerValues(r *tasks.Registry) {
	tasks.Handle(r, "interop.go_type", goType)
	tasks.Handle(r, "interop.double", double)
	tasks.Handle(r, "interop.invoice", invoice)
	tasks.Handle(r, "interop.an_hour_later", anHourLater)
	tasks.Handle(r, "interop.reverse", reverse)
	tasks.Handle(r, "interop.ship", ship)
	tasks.Handle(r, "interop.big", big)
	tasks.Handle(r, "interop.unencodable", unencodable)
}

type anyInput struct {
	Value any `celery:"value"`
}

// goType names the Go type that an argument without a type was decoded into.
func goType(_ context.Context, in anyInput) (string, error) {
	return fmt.Sprintf("%T", in.Value), nil
}

type doubleInput struct {
	Number int64 `celery:"number"`
}

// double takes what fits an int64, and nothing else.
func double(_ context.Context, in doubleInput) (int64, error) {
	return 2 * in.Number, nil
}

type invoiceInput struct {
	Price    decimal.Decimal `celery:"price"`
	Quantity int64           `celery:"quantity,default=1"`
}

func invoice(_ context.Context, in invoiceInput) (decimal.Decimal, error) {
	return in.Price.Mul(decimal.NewFromInt(in.Quantity)), nil
}

type momentInput struct {
	Moment time.Time `celery:"moment"`
}

func anHourLater(_ context.Context, in momentInput) (time.Time, error) {
	return in.Moment.Add(time.Hour), nil
}

type bytesInput struct {
	Data []byte `celery:"data"`
}

func reverse(_ context.Context, in bytesInput) ([]byte, error) {
	reversed := slices.Clone(in.Data)
	slices.Reverse(reversed)
	return reversed, nil
}

type address struct {
	Street string `celery:"street"`
	City   string `celery:"city,default=Berlin"`
}

type orderLine struct {
	Item     string `celery:"item"`
	Quantity int    `celery:"quantity"`
}

type shipInput struct {
	To    address           `celery:"to"`
	Lines []orderLine       `celery:"lines"`
	Notes map[string]string `celery:"notes"`
}

// ship takes a nested structure and returns another one.
func ship(_ context.Context, in shipInput) (map[string]any, error) {
	total := 0
	for _, line := range in.Lines {
		total += line.Quantity
	}
	return map[string]any{"label": in.To.Street + ", " + in.To.City, "items": total, "notes": in.Notes}, nil
}

type bigInput struct {
	Size int `celery:"size"`
}

// big returns a text of Size bytes.
func big(_ context.Context, in bigInput) (string, error) {
	return strings.Repeat("x", in.Size), nil
}

// unencodable returns what no serializer can write.
func unencodable(context.Context, struct{}) (chan int, error) {
	return make(chan int), nil
}
