package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"
)

// Found is what a crowd saw, in nanoseconds of the clock that all processes of a machine share.
type Found struct {
	// When each asked and was in (0: not any more), and its number.
	Visits []*[3]int64 `json:"visits"`
	// When a message came in.
	Pushes []int64 `json:"pushes"`
}

// How long all may take to stop. Who is stuck is left behind.
const grace = 10 * time.Second

// Crowd is clients with a connection and one goroutine each.
type Crowd struct {
	host    string
	lockers []rueidislock.Locker
	mutex   sync.Mutex
	found   Found
}

// gather connects clients until there are so many.
func (crowd *Crowd) gather(clients int) error {
	for len(crowd.lockers) < clients {
		locker, err := newLocker(crowd.host, crowd.heard)
		if err != nil {
			return err
		}
		crowd.lockers = append(crowd.lockers, locker)
	}
	return nil
}

func (crowd *Crowd) heard() {
	crowd.mutex.Lock()
	defer crowd.mutex.Unlock()
	crowd.found.Pushes = append(crowd.found.Pushes, now())
}

// run has a goroutine of each client go in and out of one name.
func (crowd *Crowd) run(order Order) *Found {
	crowd.mutex.Lock()
	crowd.found = Found{Visits: []*[3]int64{}, Pushes: []int64{}}
	crowd.mutex.Unlock()
	// Not a deadline: that would shorten the lease.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(until(order.EndAt), cancel)
	var all sync.WaitGroup
	all.Add(order.Clients)
	for number, locker := range crowd.lockers[:order.Clients] {
		go func() {
			defer all.Done()
			crowd.visit(ctx, locker, order, order.First+number)
		}()
	}
	stopped := make(chan struct{})
	go func() {
		all.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(until(order.EndAt) + grace):
	}
	crowd.mutex.Lock()
	defer crowd.mutex.Unlock()
	found := crowd.found
	crowd.found = Found{}
	return &found
}

func (crowd *Crowd) visit(ctx context.Context, locker rueidislock.Locker, order Order, number int) {
	// Whatever only the first pair of a client costs.
	if err := pair(locker, order.Name+":"+strconv.Itoa(number)); err != nil {
		return
	}
	time.Sleep(until(order.StartAt))
	for ctx.Err() == nil {
		ask := &[3]int64{now(), 0, int64(number)}
		crowd.mutex.Lock()
		crowd.found.Visits = append(crowd.found.Visits, ask)
		crowd.mutex.Unlock()
		_, release, err := locker.WithContext(ctx, order.Name)
		if err != nil {
			continue
		}
		crowd.mutex.Lock()
		ask[1] = now()
		crowd.mutex.Unlock()
		time.Sleep(time.Duration(order.Hold * float64(time.Second)))
		release()
		time.Sleep(time.Duration(order.Pause * float64(time.Second)))
	}
}

// until returns how long it is until a moment, in seconds of that clock.
func until(moment float64) time.Duration {
	return time.Duration(moment*float64(time.Second)) - time.Duration(now())
}

func now() int64 {
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock); err != nil {
		panic(err)
	}
	return clock.Nano()
}
