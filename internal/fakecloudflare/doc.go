// Package fakecloudflare is a double of those parts of Cloudflare's API that tailban
// uses, as strict as the real one is documented to be. It serves HTTP (Handler, for a
// listener on loopback) and answers in memory (Transport, for tests with synctest,
// where a real socket would keep the clock from moving).
//
// It has no goroutine and no clock of its own: what is due by Options.Now is done at
// the next request or question. Its ids, and which faults fall on which request, come
// from Options.Seed, so that a run with the same requests in the same order is the same.
//
// Every request is kept in a log, which holds the last Options.LogSize of them, with
// what was answered and how much of a quota it used. Tokens are in it by their id only.
//
// Where the real API's behaviour is not known (the code of a refusal, whether a full
// list is refused at the request or by its operation), there is an option, and the
// comment there says so. A client has to be right with each.
//
// A test makes a double, gives its Transport to a client, and asks afterwards:
//
//	s := fakecloudflare.New(fakecloudflare.Options{Seed: 7})
//	client := &http.Client{Transport: s.Transport()} // with fakecloudflare.Secret as token
//	s.AddForeignItems("banned", fakecloudflare.Item{IP: "192.0.2.9", Comment: "of a person"})
//	s.SetFaults(0.02, fakecloudflare.AllFaults()...)
//	…
//	s.NoFaults()
//	s.Items("banned")           // what the list holds
//	s.Blocked(addr, time.Now()) // what the edge does
//	s.Requests()                // what it took
package fakecloudflare
