package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lovage-project/lovage/pkg/tasks"
)

func registerRetries(r *tasks.Registry) {
	tasks.Handle(r, "guide.fetch", fetch, tasks.MaxRetries(5))
	tasks.Handle(r, "guide.backoff", backoff, tasks.MaxRetries(5))
	tasks.Handle(r, "guide.pay", pay, tasks.MaxRetries(1))
	tasks.Handle(r, "guide.divert", divert)
	tasks.Handle(r, "guide.page", page, tasks.RetryForever(), tasks.DefaultRetryDelay(time.Minute))
}

// Fetch is the Python signature fetch(url).
type Fetch struct {
	URL string `celery:"url"`
}

var errTimeout = errors.New("the site did not answer")

func fetch(ctx context.Context, in Fetch) (int, error) {
	size, err := download(ctx, in.URL)
	if err != nil {
		return 0, tasks.Retry(ctx, err, tasks.Countdown(60*time.Second))
	}
	return size, nil
}

func backoff(ctx context.Context, in Fetch) (int, error) {
	size, err := download(ctx, in.URL)
	if err != nil {
		request, _ := tasks.RequestFrom(ctx)
		return 0, tasks.Retry(ctx, err, tasks.Countdown(time.Second<<request.Retries))
	}
	return size, nil
}

func pay(ctx context.Context, in Fetch) (int, error) {
	size, err := download(ctx, in.URL)
	if err != nil {
		err = tasks.Retry(ctx, err, tasks.Countdown(0))
		if errors.Is(err, tasks.ErrMaxRetriesExceeded) {
			pageSomeone(in.URL)
		}
		return 0, err // the retry, or in the end the cause
	}
	return size, nil
}

func divert(ctx context.Context, in Fetch) (int, error) {
	return 0, tasks.Retry(ctx, errTimeout, tasks.RetryQueue("slow"), tasks.RetryPriority(1), tasks.RetryArgs(in.URL+"?mirror=2"))
}

// Page is the Python signature page(url, number=0).
type Page struct {
	URL    string `celery:"url"`
	Number int    `celery:"number,default=0"`
}

func page(ctx context.Context, in Page) (int, error) {
	if _, err := download(ctx, fmt.Sprintf("%s?page=%d", in.URL, in.Number)); err != nil {
		return 0, tasks.Retry(ctx, err)
	}
	return in.Number, nil
}

func download(_ context.Context, url string) (int, error) {
	if url == "" {
		return 0, errTimeout
	}
	return len(url), nil
}

func pageSomeone(string) {}
