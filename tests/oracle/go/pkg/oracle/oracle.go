// Package oracle answers questions about upstream's own functions: a JSON line in, a JSON line out.
//
// It is ours, and is built into a copy of upstream's module. A file `oracle_*.go` of ours in one of upstream's packages
// registers a handler for each function that it can call, exported or not.
package oracle

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Handler answers one case. An error means that the case could not be read, not that upstream refused something: what
// upstream says, errors included, is part of the answer.
type Handler func(input json.RawMessage) (any, error)

var handlers = map[string]Handler{}

// Register makes a function known under a name. Called from init.
func Register(name string, handler Handler) {
	if _, taken := handlers[name]; taken {
		panic("two handlers are called " + name)
	}
	handlers[name] = handler
}

// Of turns a function over a typed case into a handler. Unknown fields are errors: a misspelt field would be compared with
// nothing. Objects of the API are read as leniently as everywhere, because they have an unmarshaller of their own.
func Of[Case any](answer func(Case) any) Handler {
	return func(input json.RawMessage) (any, error) {
		decoder := json.NewDecoder(strings.NewReader(string(input)))
		decoder.DisallowUnknownFields()
		var c Case
		if err := decoder.Decode(&c); err != nil {
			return nil, err
		}
		return answer(c), nil
	}
}

type question struct {
	Function string          `json:"function"`
	Case     json.RawMessage `json:"case"`
}

type reply struct {
	Answer any    `json:"answer,omitempty"`
	Error  string `json:"error,omitempty"`
	Panic  string `json:"panic,omitempty"`
}

func answer(line []byte) (r reply) {
	defer func() {
		if cause := recover(); cause != nil {
			r = reply{Panic: fmt.Sprint(cause)}
		}
	}()
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return reply{Error: err.Error()}
	}
	handler, known := handlers[q.Function]
	if !known {
		return reply{Error: "no handler for " + q.Function}
	}
	got, err := handler(q.Case)
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Answer: got}
}

// Main answers lines until there are no more. Answers are flushed when no further question waits in the buffer.
func Main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			text, failure := json.Marshal(answer(line))
			if failure != nil {
				text, _ = json.Marshal(reply{Error: failure.Error()})
			}
			out.Write(append(text, '\n'))
			if in.Buffered() == 0 {
				out.Flush()
			}
		}
		if err == io.EOF {
			out.Flush()
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "read a case:", err)
			os.Exit(1)
		}
	}
}
