// One side of the benchmarks: rueidislock, a lock on rueidis, Redis' own client for Go.
//
// It does one job a line, as the workers of the benchmarks do: {"job": "pairs", "tasks": 8, ...}
// is answered by {"result": ...}. The first answer says that it is connected. The program ends
// with its input, and when a job fails.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Order is what a line asks for.
type Order struct {
	Job     string  `json:"job"`
	Tasks   int     `json:"tasks"`
	Seconds float64 `json:"seconds"`
	Prefix  string  `json:"prefix"`
	// Of a crowd.
	Clients int     `json:"clients"`
	First   int     `json:"first"`
	Name    string  `json:"name"`
	Hold    float64 `json:"hold"`
	Pause   float64 `json:"pause"`
	StartAt float64 `json:"start_at"`
	EndAt   float64 `json:"end_at"`
}

// Pairs is what all goroutines did together, with the processor time of all threads.
type Pairs struct {
	Done    int     `json:"done"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
}

// The lease of every side. The extension of a held lock is due long after a round's end.
const lease = 30 * time.Second

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(address string) error {
	server, err := url.Parse(address)
	if err != nil {
		return err
	}
	locker, err := newLocker(server.Host, func() {})
	if err != nil {
		return err
	}
	defer locker.Close()
	if err := pair(locker, "hello"); err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	if err := say(output, "ready"); err != nil {
		return err
	}
	crowd := &Crowd{host: server.Host}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var order Order
		if err := json.Unmarshal(input.Bytes(), &order); err != nil {
			return err
		}
		// Garbage of the round before is not this round's.
		runtime.GC()
		var found any
		switch order.Job {
		case "pairs":
			found, err = pairs(locker, order)
		case "gather_crowd":
			found, err = nil, crowd.gather(order.Clients)
		case "in_crowd":
			found, err = crowd.run(order), nil
		default:
			err = fmt.Errorf("no job %q", order.Job)
		}
		if err != nil {
			return err
		}
		if err := say(output, found); err != nil {
			return err
		}
	}
	return input.Err()
}

// newLocker connects; whenever the server says that a key has changed, heard is called.
func newLocker(host string, heard func()) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress:       []string{host},
			ForceSingleClient: true,
		},
		ClientBuilder: func(option rueidis.ClientOption) (rueidis.Client, error) {
			changed := option.OnInvalidations
			option.OnInvalidations = func(messages []rueidis.RedisMessage) {
				heard()
				changed(messages)
			}
			return rueidis.NewClient(option)
		},
		// One server, so one key; and no messages about what this client does itself.
		KeyMajority:    1,
		NoLoopTracking: noLoop(host),
		KeyValidity:    lease,
		// The time for one key before it tries the next, of which there is none. The default
		// of 20 ms is too short for 512 goroutines on a busy machine.
		TryNextAfter: lease,
	})
}

func say(output *json.Encoder, result any) error {
	return output.Encode(map[string]any{"result": result})
}

// noLoop says whether the server knows CLIENT TRACKING NOLOOP for scripts: Redis 7.0.5 and later.
func noLoop(address string) bool {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{address},
		ForceSingleClient: true,
	})
	if err != nil {
		return false
	}
	defer client.Close()
	facts, err := client.Do(context.Background(), client.B().Hello().Protover(3).Build()).AsMap()
	if err != nil {
		return false
	}
	version := facts["version"]
	text, _ := version.ToString()
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return false
	}
	return major*10_000+minor*100+patch >= 7_00_05
}

// pairs has every goroutine acquire and release a name of its own until the time is over.
func pairs(locker rueidislock.Locker, order Order) (*Pairs, error) {
	counts := make([]int, order.Tasks)
	errs := make([]error, order.Tasks)
	var all sync.WaitGroup
	all.Add(order.Tasks)
	cpu, start := processorTime(), time.Now()
	end := start.Add(time.Duration(order.Seconds * float64(time.Second)))
	for number := range order.Tasks {
		go func() {
			defer all.Done()
			name := order.Prefix + ":" + strconv.Itoa(number)
			done := 0
			for done == 0 || time.Now().Before(end) {
				if err := pair(locker, name); err != nil {
					errs[number] = err
					return
				}
				done++
			}
			counts[number] = done
		}()
	}
	all.Wait()
	found := &Pairs{Seconds: time.Since(start).Seconds(), CPU: processorTime() - cpu}
	for number, count := range counts {
		if errs[number] != nil {
			return nil, errs[number]
		}
		found.Done += count
	}
	return found, nil
}

func pair(locker rueidislock.Locker, name string) error {
	_, release, err := locker.WithContext(context.Background(), name)
	if err != nil {
		return err
	}
	// It returns when the server has answered.
	release()
	return nil
}

// processorTime returns the seconds of processor time of this process so far.
func processorTime() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func seconds(of syscall.Timeval) float64 {
	return float64(of.Sec) + float64(of.Usec)/1e6
}
