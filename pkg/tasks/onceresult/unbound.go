package onceresult

import (
	"context"

	"github.com/lovage-project/lovage/pkg/protocol"
	"github.com/lovage-project/lovage/pkg/results"
)

// unbound stands for a backend that isn't there yet.
type unbound struct{}

func (unbound) StoreFirst(context.Context, protocol.Meta, results.StoreOptions) (protocol.Meta, error) {
	return protocol.Meta{}, ErrUnbound
}

func (unbound) Store(context.Context, protocol.Meta, results.StoreOptions) error { return ErrUnbound }

func (unbound) Fetch(context.Context, string) (protocol.Meta, error) {
	return protocol.Meta{}, ErrUnbound
}

func (unbound) Forget(context.Context, string) error { return ErrUnbound }

func (unbound) Start(context.Context) error { return ErrUnbound }

func (unbound) Stop() error { return nil }
