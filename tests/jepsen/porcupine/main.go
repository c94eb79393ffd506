// Judges histories with porcupine, so that our own search has somebody to agree with.
//
// A line of standard input is a history as JSON: {"model": "mutex", "calls": [[start, end, [word, ...]], ...]};
// an end of 0 means that nobody knows whether the call happened. For each it prints true or false.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

const limit = 3

// state is that of any model: its holder, how often or how much it is held; or a value and the greatest token;
// and how often each of two callers reads.
type state struct {
	holder  string
	count   int
	token   int
	readers [2]int
}

// call is what was done, and whether it is certain that it was.
type call struct {
	action []any
	sure   bool
}

func (c call) word() string      { return c.action[0].(string) }
func (c call) text() string      { return c.action[1].(string) }
func (c call) number(at int) int { return int(c.action[at].(float64)) }

// models say what follows from a call, and whether it is possible.
var models = map[string]func(s state, c call) (state, bool){
	"mutex": func(s state, c call) (state, bool) {
		if c.word() == "acquire" {
			return state{holder: c.text()}, s.holder == ""
		}
		return state{}, s.holder == c.text()
	},
	"reentrant": func(s state, c call) (state, bool) {
		mine := s.holder == c.text()
		switch c.word() {
		case "acquire":
			return state{holder: c.text(), count: s.count + 1}, mine || s.count == 0
		case "drop":
			return state{}, mine
		}
		if s.count == 1 {
			return state{}, mine
		}
		return state{holder: s.holder, count: s.count - 1}, mine
	},
	"read-write": func(s state, c call) (state, bool) {
		hold := c.action[1].([]any)
		who, writes := hold[1].(string), hold[0] == "write"
		place, mine := who[0]-'a', s.holder == who
		switch {
		case c.word() == "acquire" && writes:
			free := s.holder == "" && s.readers == [2]int{}
			s.holder, s.count = who, s.count+1
			return s, mine || free
		case c.word() == "acquire":
			s.readers[place]++
			return s, mine || s.holder == ""
		case writes:
			s.count--
			if s.count == 0 {
				s.holder = ""
			}
			return s, mine
		}
		s.readers[place]--
		return s, s.readers[place] >= 0
	},
	"semaphore": func(s state, c call) (state, bool) {
		if c.word() == "acquire" {
			s.count += c.number(1)
		} else {
			s.count -= c.number(1)
		}
		return s, 0 <= s.count && s.count <= limit
	},
	"register": func(s state, c call) (state, bool) {
		if c.word() == "write" {
			return state{count: c.number(1)}, true
		}
		return s, s.count == c.number(1)
	},
	"fenced": func(s state, c call) (state, bool) {
		token, accepted := c.number(1), c.action[3].(bool)
		fits := token >= s.token
		if c.word() == "begin" {
			said := c.action[2] == nil || c.number(2) == s.count
			if fits {
				s.token = token
			}
			return s, said
		}
		if accepted && fits {
			return state{count: c.number(2), token: token}, true
		}
		return s, !accepted && !fits
	},
}

func model(name string) porcupine.Model {
	step := models[name]
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(before, input, _ any) []any {
			after, possible := step(before.(state), input.(call))
			states := []any{}
			if possible {
				states = append(states, after)
			}
			if !input.(call).sure {
				states = append(states, before)
			}
			return states
		},
	}
	return nondeterministic.ToModel()
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var history struct {
			Model string
			Calls [][3]json.RawMessage
		}
		check(json.Unmarshal(lines.Bytes(), &history))
		operations := []porcupine.Operation{}
		for client, each := range history.Calls {
			var start, end int64
			var action []any
			check(json.Unmarshal(each[0], &start))
			check(json.Unmarshal(each[1], &end))
			check(json.Unmarshal(each[2], &action))
			made := call{action, end != 0}
			if !made.sure {
				end = math.MaxInt64
			}
			operations = append(operations, porcupine.Operation{
				ClientId: client, Input: made, Call: start, Return: end,
			})
		}
		fmt.Println(porcupine.CheckOperations(model(history.Model), operations))
	}
	check(lines.Err())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
