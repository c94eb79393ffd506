// Calls Go's concurrency.Mutex and Election as lines on the standard input say: `id thread verb words...`.
//
// A name may begin with a kind: `read:` and `write:` are the sides of the recipes' RWMutex.
//
// Each thread has a session of its own, as two mutexes of one session are one contender. The
// answer is a line `id result`; a result that begins with `!` is an error.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"
)

// leastWait is how long a side that does not wait is given: there is no other way to ask.
const leastWait = 500 * time.Millisecond

type thread struct {
	client    *clientv3.Client
	ttl       int
	session   *concurrency.Session
	mutexes   map[string]*concurrency.Mutex
	sides     map[string]*recipe.RWMutex
	elections map[string]*concurrency.Election
	orders    chan []string
}

func main() {
	ttl, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Args[1]}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		panic(err)
	}
	answers := make(chan string)
	go func() {
		for answer := range answers {
			fmt.Println(answer)
		}
	}()
	threads := map[string]*thread{}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		order := strings.Split(input.Text(), " ")
		one := threads[order[1]]
		if one == nil {
			one = &thread{
				client: client, ttl: ttl, mutexes: map[string]*concurrency.Mutex{},
				sides: map[string]*recipe.RWMutex{}, elections: map[string]*concurrency.Election{},
				orders: make(chan []string, 100),
			}
			threads[order[1]] = one
			go one.work(answers)
		}
		one.orders <- order
	}
}

func (one *thread) work(answers chan<- string) {
	for order := range one.orders {
		result, err := one.result(order[2], order[3:])
		if err != nil {
			result = "!" + err.Error()
		}
		answers <- order[0] + " " + result
	}
}

func (one *thread) result(verb string, words []string) (string, error) {
	background := context.Background()
	if one.session == nil {
		session, err := concurrency.NewSession(one.client, concurrency.WithTTL(one.ttl))
		if err != nil {
			return "", err
		}
		one.session = session
	}
	switch verb {
	case "acquire":
		wait, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		limit := time.Duration(wait) * time.Millisecond
		if kind := kindOf(words[0]); kind != "" {
			got, err := one.enter(kind, words[0], limit)
			return strconv.FormatBool(got), err
		}
		got, err := acquire(one.mutex(words[0]), limit)
		return strconv.FormatBool(got), err
	case "release":
		return "true", one.release(words[0])
	case "key":
		return one.mutex(words[0]).Key(), nil
	case "delete":
		place, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		contenders, err := one.client.Get(background, words[0]+"/", clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return "", err
		}
		_, err = one.client.Delete(background, string(contenders.Kvs[place].Key))
		return "true", err
	case "crowd":
		times, err := strconv.Atoi(words[2])
		for ; err == nil && times > 0; times-- {
			err = one.increment(words[0], words[1], words[3])
		}
		return "true", err
	case "campaign":
		wait, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		limited, cancel := context.WithTimeout(background, time.Duration(wait)*time.Millisecond)
		defer cancel()
		err = one.election(words[0]).Campaign(limited, words[1])
		if errors.Is(err, context.DeadlineExceeded) {
			return "false", nil
		}
		return strconv.FormatBool(err == nil), err
	case "candidate":
		return one.election(words[0]).Key(), nil
	case "proclaim":
		return "true", one.election(words[0]).Proclaim(background, words[1])
	case "resign":
		return "true", one.election(words[0]).Resign(background)
	case "leader":
		found, err := one.election(words[0]).Leader(background)
		if err != nil {
			return "", err
		}
		first := found.Kvs[0]
		return fmt.Sprintf("%s %d", first.Value, first.CreateRevision), nil
	case "observe":
		return one.observe(words[0], words[1])
	case "leave":
		return "true", one.leave()
	}
	return "", errors.New("unknown verb")
}

// kindOf returns the side of a name that begins with one.
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	if kind == "read" || kind == "write" {
		return kind
	}
	return ""
}

func (one *thread) leave() error {
	err := one.session.Close()
	one.session, one.mutexes = nil, map[string]*concurrency.Mutex{}
	one.sides = map[string]*recipe.RWMutex{}
	one.elections = map[string]*concurrency.Election{}
	return err
}

// enter acquires a side. That takes no context: to give up, the thread ends its session.
func (one *thread) enter(kind, name string, wait time.Duration) (bool, error) {
	side := recipe.NewRWMutex(one.session, strings.TrimPrefix(name, kind+":"))
	entered := make(chan error, 1)
	go func() {
		if kind == "read" {
			entered <- side.RLock()
		} else {
			entered <- side.Lock()
		}
	}()
	one.sides[name] = side
	select {
	case err := <-entered:
		return err == nil, err
	case <-time.After(max(wait, leastWait)):
		return false, one.leave()
	}
}

func (one *thread) release(name string) error {
	if side := one.sides[name]; side != nil {
		// Unlock does the same as RUnlock.
		delete(one.sides, name)
		return side.Unlock()
	}
	return one.mutex(name).Unlock(context.Background())
}

func (one *thread) mutex(name string) *concurrency.Mutex {
	if one.mutexes[name] == nil {
		one.mutexes[name] = concurrency.NewMutex(one.session, name)
	}
	return one.mutexes[name]
}

func (one *thread) election(name string) *concurrency.Election {
	if one.elections[name] == nil {
		one.elections[name] = concurrency.NewElection(one.session, name)
	}
	return one.elections[name]
}

// observe returns what leaders said, in order, until one says the last word.
func (one *thread) observe(name, last string) (string, error) {
	limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var said []string
	for seen := range one.election(name).Observe(limited) {
		said = append(said, string(seen.Kvs[0].Value))
		if said[len(said)-1] == last {
			return strings.Join(said, ","), nil
		}
	}
	return "", fmt.Errorf("observed only %v", said)
}

func acquire(mutex *concurrency.Mutex, wait time.Duration) (bool, error) {
	if wait == 0 {
		err := mutex.TryLock(context.Background())
		if errors.Is(err, concurrency.ErrLocked) {
			return false, nil
		}
		return err == nil, err
	}
	limited, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err := mutex.Lock(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// increment adds a line to a file that only the mutex protects.
func (one *thread) increment(name, file, line string) error {
	if kind := kindOf(name); kind != "" {
		if entered, err := one.enter(kind, name, time.Hour); err != nil || !entered {
			return errors.Join(err, errors.New("not entered"))
		}
	} else if err := one.mutex(name).Lock(context.Background()); err != nil {
		return err
	}
	lines, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	own := file + line
	if err := os.WriteFile(own, append(lines, line+"\n"...), 0o600); err != nil {
		return err
	}
	if err := os.Rename(own, file); err != nil {
		return err
	}
	return one.release(name)
}
